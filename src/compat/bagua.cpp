#include "compat/bagua.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/callback.h"
#include "base/hasher.h"
#include "base/options.h"
#include "ranks/ranks.h"

namespace sab {

void Batches::add(const int64_t* batch, std::size_t count) {
    try {
        check(count >= 1, "count", count, "must be at least 1");
        require(batch, "indices");
        for (std::size_t i = 0; i < count; ++i)
            if (batch[i] < 0 || static_cast<uint64_t>(batch[i]) >= samples)
                refuse_argument(named("indices[", i, "]"), batch[i],
                                "must be from 0 to below the number of samples, ", samples);
    } catch (const Error& error) {
        if (!refusal) refusal = error;
        throw;
    }
    ranges.push_back({indices.size(), count});
    for (std::size_t i = 0; i < count; ++i) indices.push_back(static_cast<uint32_t>(batch[i]));
}

namespace {

/// Refuses options that break the rules; sets defaults. `batch_size` stays 0 where batches have a
/// variable size.
sab_bagua_options checked(sab_bagua_options options) {
    check(options.no_shuffle == 0 || options.no_shuffle == 1, "balancing.no_shuffle",
          options.no_shuffle, "must be 0 or 1");
    check(options.drop_last == 0 || options.drop_last == 1, "balancing.drop_last",
          options.drop_last, "must be 0 or 1");
    check(options.random_level >= 0 && options.random_level <= 1, "balancing.random_level",
          options.random_level, "must be from 0 to 1");
    check(options.limit >= 0 && std::isfinite(options.limit), "balancing.limit", options.limit,
          "must be finite and not negative");
    const bool has_function = options.make_batches != nullptr;
    check(!has_function || options.limit == 0, "balancing.limit", options.limit,
          "must not be set beside balancing.make_batches");
    check(has_function || options.release == nullptr, "balancing.release", "given",
          "must be NULL without balancing.make_batches");
    if (has_function || options.limit > 0)
        check(options.batch_size == 0, "balancing.batch_size", options.batch_size,
              "must be 0 beside balancing.limit and balancing.make_batches");
    else
        default_to(options.batch_size, 1);
    return options;
}

}  // namespace

BaguaSequence::BaguaSequence(const Sizes& complexity, const sab_bagua_options& given)
    : options_(checked(given)), batches_ctx_(options_.make_batches_ctx, options_.release) {
    check(complexity.count() <= largest_sample_count, "complexity.count", complexity.count(),
          "must be at most 4294967295");
    auto numbers = std::make_shared<std::vector<double>>(complexity.count());
    complexity.dense("complexity").visit([&](auto view) {
        for (std::size_t i = 0; i < numbers->size(); ++i)
            (*numbers)[i] = checked_size(view[i], i, "complexity");
    });
    complexity_ = numbers;
    if (!numbers->empty()) {
        const auto [least, most] = std::ranges::minmax_element(*numbers);
        noise_ = static_cast<uint64_t>((*most - *least) * options_.random_level + 1);
        if (options_.limit > 0)
            check(*most <= options_.limit, "balancing.limit", options_.limit, "complexity[",
                  most - numbers->begin(), "] = ", *most, " alone is more");
    }
    const double facts[] = {static_cast<double>(options_.no_shuffle == 0),
                            static_cast<double>(options_.drop_last), options_.random_level,
                            static_cast<double>(options_.batch_size), options_.limit};
    Hasher hash;
    hash.add(facts);
    hash.add_all(std::span(*numbers));
    fingerprint_ = hash.digest();
}

BaguaSequence::BaguaSequence(const BaguaSequence& other)
    : options_(other.options_),
      batches_ctx_(nullptr, nullptr),
      complexity_(other.complexity_),
      noise_(other.noise_),
      fingerprint_(other.fingerprint_),
      now_(other.now_) {}

std::unique_ptr<Sequence::EpochOrder> BaguaSequence::make_epoch_order(
    const EpochOptions& epoch_options) const {
    if (now_->epoch_options == epoch_options) return nullptr;
    const uint64_t ranks = epoch_options.step_batches, count = complexity_->size();
    check(ranks <= most_ranks, "options.world_size", ranks, "load is balanced over at most ",
          most_ranks, " ranks");
    const bool drops_samples = !makes_batches() && options_.drop_last != 0;
    Division division;
    division.epoch_options = epoch_options;
    division.per_rank = count / ranks + (!drops_samples && count % ranks != 0);

    MersenneTwister generator(static_cast<uint32_t>(epoch_options.seed + epoch_options.epoch));
    const std::vector<uint32_t> by_complexity = sorted(generator);
    std::vector<uint32_t> chunks;
    if (options_.no_shuffle == 0) {
        chunks = torch_permutation(generator, division.per_rank);
    } else {
        chunks.resize(division.per_rank);
        std::iota(chunks.begin(), chunks.end(), 0u);
    }
    division.samples.reserve(ranks * division.per_rank);
    for (uint64_t rank = 0; rank < ranks; ++rank)
        for (const uint32_t chunk : chunks)
            division.samples.push_back(by_complexity[(chunk * ranks + rank) % count]);
    if (!makes_batches())
        division.batches = (division.per_rank / options_.batch_size +
                            (division.per_rank % options_.batch_size != 0)) *
                           ranks;
    else
        make_batches(division);
    return std::make_unique<EpochOrderOf<SharedDivision>>(
        std::make_shared<const Division>(std::move(division)));
}

/// Samples by complexity and noise, then by index.
std::vector<uint32_t> BaguaSequence::sorted(MersenneTwister& generator) const {
    struct Keyed {
        double key;
        uint32_t index;
    };
    std::vector<Keyed> keyed;
    keyed.reserve(complexity_->size());
    for (const double each : *complexity_) {
        const double more =
            options_.no_shuffle == 0 ? static_cast<double>(torch_below(generator, noise_)) : 0;
        keyed.push_back({each + more, static_cast<uint32_t>(keyed.size())});
    }
    std::ranges::sort(keyed, [](const Keyed& a, const Keyed& b) {
        return a.key != b.key ? a.key < b.key : a.index < b.index;
    });
    std::vector<uint32_t> indices;
    indices.reserve(keyed.size());
    for (const Keyed& each : keyed) indices.push_back(each.index);
    return indices;
}

void BaguaSequence::make_batches(Division& division) const {
    const uint64_t ranks = division.epoch_options->step_batches;
    sab_batches batches{{}, {complexity_->size(), {}, {}, {}}};
    std::vector<uint64_t> ends;  // of each rank's batches
    uint64_t least = ~uint64_t{0}, most = 0;
    std::size_t poorest = 0;
    for (uint64_t rank = 0; rank < ranks; ++rank) {
        const auto samples =
            std::span(division.samples).subspan(rank * division.per_rank, division.per_rank);
        make_batches(std::vector<int64_t>(samples.begin(), samples.end()), batches);
        if (batches.impl.refusal) throw std::move(*batches.impl.refusal);
        const uint64_t made = batches.impl.ranges.size() - (ends.empty() ? 0 : ends.back());
        ends.push_back(batches.impl.ranges.size());
        if (made < least) poorest = rank;
        least = std::min(least, made);
        most = std::max(most, made);
    }
    if (options_.drop_last == 0 && least == 0 && most > 0)
        fail(SAB_E_ARGUMENT, "the batch callback made no batch for rank ", poorest, " and ", most,
             " for another: must make at least one for each rank");
    const uint64_t per_rank = options_.drop_last != 0 ? least : most;
    division.batches = per_rank * ranks;
    division.made.resize(division.batches);
    for (uint64_t rank = 0, first = 0; rank < ranks; first = ends[rank++])
        for (uint64_t i = 0; i < per_rank; ++i)
            division.made[i * ranks + rank] = batches.impl.ranges[first + i % (ends[rank] - first)];
    division.samples = std::move(batches.impl.indices);
}

void BaguaSequence::make_batches(std::span<const int64_t> indices, sab_batches& batches) const {
    if (options_.make_batches != nullptr) {
        call_back("the batch callback", [&] {
            return options_.make_batches(batches_ctx_.get(), indices.data(), indices.size(),
                                         &batches);
        });
        return;
    }
    double total = 0;
    std::size_t first = 0;
    for (std::size_t i = 0; i < indices.size(); ++i) {
        const double more = (*complexity_)[static_cast<std::size_t>(indices[i])];
        if (i > first && total + more > options_.limit) {
            batches.impl.add(&indices[first], i - first);
            first = i;
            total = 0;
        }
        total += more;
    }
    if (first < indices.size()) batches.impl.add(&indices[first], indices.size() - first);
}

Batches::Range BaguaSequence::range(uint64_t position) const {
    if (!now_->made.empty()) return now_->made[position];
    const uint64_t ranks = now_->epoch_options->step_batches,
                   first = position / ranks * options_.batch_size;
    return {position % ranks * now_->per_rank + first,
            std::min(options_.batch_size, now_->per_rank - first)};
}

PerColumn BaguaSequence::total(uint64_t position) const {
    const Batches::Range part = range(position);
    double total = 0;
    for (uint64_t i = 0; i < part.count; ++i)
        total += (*complexity_)[now_->samples[part.first + i]];
    return {total};
}

void BaguaSequence::fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const {
    const uint32_t* samples = now_->samples.data() + range(position).first + first;
    batch.fill(count, [&](uint64_t i) { return Sample{samples[i], (*complexity_)[samples[i]]}; });
}

}  // namespace sab
