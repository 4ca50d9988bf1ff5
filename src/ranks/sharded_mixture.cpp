#include "ranks/sharded_mixture.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "base/hasher.h"
#include "base/log.h"
#include "ranks/even_steps.h"
#include "sampler/permutation.h"

namespace sab {
namespace {

/// What the rank of a slot told of its samples. Adds their sizes and sources to those of the slots
/// before.
void read_slot(std::size_t slot, std::span<const Bar> bars, std::span<const ToldSample> told,
               std::size_t sources, std::vector<double>& sizes, std::vector<uint16_t>& source_of) {
    std::vector<uint64_t> left;
    for (const Bar& bar : bars) left.push_back(bar.count);
    for (const auto& [size_low, size_high, source] : told) {
        const uint32_t distinct = size_low | uint32_t{size_high} << 16;
        if (distinct >= bars.size() || left[distinct] == 0 || source >= sources)
            fail_about(SAB_E_MISMATCH, "all_gather", no_value, "slot ", slot,
                       " holds a sample of source ", source, " with size number ", distinct,
                       ", which no rank gave");
        --left[distinct];
        sizes.push_back(bars[distinct].size);
        source_of.push_back(source);
    }
}

/// The batches that each rank takes in an epoch. A rank has as many as any other. Where it has
/// fewer samples, some are empty. With `min_batch_size` none is: it takes its longest ones of
/// shorter buckets, too, and if there are still too few, all ranks have fewer batches.
class RankBatches {
public:
    struct Piece {
        std::size_t bucket;
        uint64_t first, count;  ///< of the samples that the rank has in the bucket
    };

    RankBatches(const Plan& plan, std::span<const uint32_t> samples, const ShardedMixture& of)
        : buckets_(plan.buckets()), fewest_(plan.fewest()), ranks_(of.ranks()) {
        divide(plan.order(), samples, of);
        std::vector<std::vector<uint64_t>> batches(ranks_);  // of a rank, by bucket
        uint64_t most = UINT64_MAX;
        for (std::size_t r = 0; r < ranks_; ++r) {
            uint64_t all = 0, most_of_rank = 0;
            for (std::size_t b = 0; b < buckets_.size(); ++b) {
                batches[r].push_back(std::min(wanted(b, r), most_batches(b, r)));
                all += batches[r].back();
                most_of_rank += most_batches(b, r);
            }
            steps_ = std::max(steps_, all);
            most = std::min(most, most_of_rank);
        }
        if (fewest_ > 1) steps_ = std::min(steps_, most);
        for (std::size_t r = 0; r < ranks_; ++r) {
            leave_out(batches[r]);
            fill_steps(r, batches[r]);
            for (std::size_t b = 0; b < buckets_.size(); ++b) {
                const uint64_t pieces = batches[r][b],
                               all = std::min(count(b, r), pieces * buckets_[b].batch_size);
                for (uint64_t i = 0; i < pieces; ++i)
                    pieces_.push_back(
                        {b, i * all / pieces, (i + 1) * all / pieces - i * all / pieces});
                used_.push_back(all);
            }
            pieces_.resize((r + 1) * steps_);
        }
    }

    uint64_t ranks() const { return ranks_; }
    uint64_t steps() const { return steps_; }
    /// One of all ranks' batches.
    const Piece& piece(std::size_t batch) const { return pieces_[batch]; }
    /// Places in the plan's order of the samples of a batch.
    std::span<const uint32_t> places(std::size_t batch, const EpochOptions& of,
                                     std::vector<uint32_t>& room) const {
        const Piece& piece = pieces_[batch];
        return places(piece.bucket, piece.count == 0 ? 0 : batch / steps_, piece.first, piece.count,
                      of, room);
    }
    uint64_t left_out() const {
        return places_.size() - std::reduce(used_.begin(), used_.end(), uint64_t{0});
    }
    /// Calls `add` with the places of each of them that a rank has.
    template <class Add>
    void left_out(uint64_t rank, const EpochOptions& of, std::vector<uint32_t>& room,
                  const Add& add) const {
        for (std::size_t b = 0; b < buckets_.size(); ++b) {
            const uint64_t used = used_[at(b, rank)];
            add(places(b, rank, used, count(b, rank) - used, of, room));
        }
    }

private:
    std::size_t at(std::size_t bucket, uint64_t rank) const {
        return static_cast<std::size_t>(rank) * buckets_.size() + bucket;
    }
    uint64_t count(std::size_t bucket, uint64_t rank) const {
        return begin_[at(bucket, rank) + 1] - begin_[at(bucket, rank)];
    }
    /// The fewest batches that the samples of a rank in a bucket need, and the most that they make.
    uint64_t wanted(std::size_t bucket, uint64_t rank) const {
        const uint64_t size = buckets_[bucket].batch_size;
        return (count(bucket, rank) + size - 1) / size;
    }
    uint64_t most_batches(std::size_t bucket, uint64_t rank) const {
        return count(bucket, rank) / fewest_;
    }

    void divide(std::span<const uint32_t> order, std::span<const uint32_t> samples,
                const ShardedMixture& of) {
        std::vector<std::vector<uint32_t>> by_rank(ranks_);
        std::vector<std::vector<std::size_t>> begin(ranks_);
        for (const Bucket& bucket : buckets_) {
            for (std::size_t r = 0; r < ranks_; ++r) begin[r].push_back(by_rank[r].size());
            for (uint64_t place = bucket.begin; place < bucket.end; ++place)
                by_rank[of.rank_of(samples[order[place]])].push_back(static_cast<uint32_t>(place));
        }
        for (std::size_t r = 0; r < ranks_; ++r) {
            for (const std::size_t each : begin[r]) begin_.push_back(places_.size() + each);
            places_.insert(places_.end(), by_rank[r].begin(), by_rank[r].end());
        }
        begin_.push_back(places_.size());
        if (fewest_ == 1) return;
        for (std::size_t r = 0; r < ranks_; ++r)
            for (std::size_t b = buckets_.size(); b-- > 0;) take_shorter(b, r);
    }

    /// Moves as many samples of a rank to a bucket as its batches lack.
    void take_shorter(std::size_t bucket, uint64_t rank) {
        const uint64_t needed = wanted(bucket, rank) * fewest_;
        if (count(bucket, rank) >= needed) return;
        std::size_t first = bucket;  // of the same id
        while (first > 0 && buckets_[first - 1].id == buckets_[bucket].id) --first;
        const uint64_t moved = std::min<uint64_t>(
            needed - count(bucket, rank), begin_[at(bucket, rank)] - begin_[at(first, rank)]);
        const std::size_t begin = begin_[at(bucket, rank)] - moved;
        for (; first <= bucket; ++first)
            begin_[at(first, rank)] = std::min(begin_[at(first, rank)], begin);
    }

    std::span<const uint32_t> places(std::size_t bucket, uint64_t rank, uint64_t first,
                                     uint64_t number, const EpochOptions& of,
                                     std::vector<uint32_t>& room) const {
        room.resize(number);
        if (number == 0) return room;
        Permutation(count(bucket, rank),
                    permutation_key(of.seed, of.epoch, Purpose::samples, bucket * ranks_ + rank))
            .fill(first, room);
        for (uint32_t& place : room) place = places_[begin_[at(bucket, rank)] + place];
        return room;
    }

    /// Takes batches of the buckets that have most, until no more are left than steps. Samples of
    /// all lengths are left out so, and others in each epoch.
    void leave_out(std::vector<uint64_t>& batches) const {
        for (uint64_t all = std::reduce(batches.begin(), batches.end()); all > steps_; --all)
            --*std::ranges::max_element(batches);
    }

    /// Divides the costliest batches of a rank until it has one for each step, or as many as its
    /// samples make.
    void fill_steps(uint64_t rank, std::vector<uint64_t>& batches) const {
        uint64_t all = 0;
        std::priority_queue<std::pair<double, std::size_t>> costliest;
        const auto add = [&](std::size_t b) {
            if (batches[b] == most_batches(b, rank)) return;
            costliest.emplace(buckets_[b].cost * static_cast<double>(count(b, rank)) /
                                  static_cast<double>(buckets_[b].batch_size * batches[b]),
                              b);
        };
        for (std::size_t b = 0; b < buckets_.size(); ++b) {
            all += batches[b];
            add(b);
        }
        for (; all < steps_ && !costliest.empty(); ++all) {
            const std::size_t b = costliest.top().second;
            costliest.pop();
            ++batches[b];
            add(b);
        }
    }

    std::span<const Bucket> buckets_;
    uint64_t fewest_, ranks_, steps_ = 0;
    std::vector<uint32_t> places_{};    ///< of the samples, by rank and bucket
    std::vector<std::size_t> begin_{};  ///< in these, by rank and bucket
    std::vector<Piece> pieces_{};       ///< of all ranks, each with as many
    std::vector<uint64_t> used_{};      ///< samples of these, by rank and bucket
};

/// The batches of an epoch. Each rank takes those of its own samples.
class ShardedBatches : public Sequence {
public:
    ShardedBatches(std::shared_ptr<const ShardedMixture> mixture, MixedPlans::OfEpoch of_epoch)
        : mixture_(std::move(mixture)),
          samples_(std::move(of_epoch.samples)),
          plan_(std::move(of_epoch.plan)),
          batches_(std::make_shared<const RankBatches>(*plan_, *samples_, *mixture_)) {}

    std::unique_ptr<Sequence> copy() const override {
        return std::make_unique<ShardedBatches>(*this);
    }
    SamplerKind kind() const override { return kind_of("sab_sharded_sampler_new"); }
    uint64_t fingerprint() const override { return mixture_->fingerprint(); }
    std::size_t skipped(std::span<int64_t> room) const override {
        std::vector<int64_t> all(plan_->facts().skipped), own;
        plan_->skipped(all);
        const uint64_t rank = mixture_->rank();
        for (const int64_t number : all) {
            const uint32_t sample = (*samples_)[static_cast<std::size_t>(number)];
            if (mixture_->rank_of(sample) == rank)
                own.push_back(int64_t{sample} - mixture_->first(rank));
        }
        batches_->left_out(rank, order_.epoch_options, places_, [&](const auto& places) {
            for (const uint32_t place : places)
                own.push_back(int64_t{sample_at(place)} - mixture_->first(rank));
        });
        return copy_indices(std::span<const int64_t>(own), room);
    }
    uint64_t batches() const override { return batches_->steps(); }
    uint64_t left_out() const { return batches_->left_out(); }
    std::unique_ptr<EpochOrder> make_epoch_order(const EpochOptions& epoch_options) const override;
    void exchange(EpochOrder& epoch_order) noexcept override {
        std::swap(order_, static_cast<EpochOrderOf<Order>&>(epoch_order).value);
    }

    bool has_others() const override { return shards() > 1; }
    uint64_t shards() const override { return batches_->ranks(); }
    void fill_shard(uint64_t position, uint64_t shard, Batch& batch) const override {
        fill_part(batch_of(position, shard), 0, samples_of(position, shard), batch);
    }
    uint64_t samples_of_ranks(uint64_t position) const override {
        uint64_t sum = 0;
        for (uint64_t r = 0; r < shards(); ++r) sum += samples_of(position, r);
        return sum;
    }
    uint64_t samples(uint64_t position) const override {
        return samples_of(position, mixture_->rank());
    }
    double cost(uint64_t position) const override {
        return cost_of(batch_of(position, mixture_->rank()));
    }
    PerColumn total(uint64_t position) const override {
        const std::size_t batch = batch_of(position, mixture_->rank());
        double sum = 0;
        for (const uint32_t place : batches_->places(batch, order_.epoch_options, places_))
            sum += size_at(place);
        return {sum};
    }
    BatchSums sums() const override {
        BatchSums sums;
        const BatchSums planned = sums_of(*plan_);
        const double used = planned.samples - static_cast<double>(batches_->left_out());
        sums.add(planned, used / planned.samples / static_cast<double>(shards()));
        return sums;
    }
    BatchSums sums_at(uint64_t position) const override {
        BatchSums sums;
        Batch batch;
        for (uint64_t shard = 0; shard < shards(); ++shard) {
            fill_shard(position, shard, batch);
            sums.add({static_cast<double>(batch.count), batch.total},
                     1 / static_cast<double>(shards()));
        }
        return sums;
    }
    std::size_t bucket(uint64_t position) const override {
        return batches_->piece(batch_of(position, mixture_->rank())).bucket;
    }
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override {
        fill_part(batch_of(position, mixture_->rank()), first, count, batch);
        for (int64_t& index : std::span(batch.buffer).first(count))
            index -= mixture_->first(mixture_->rank());
    }

private:
    struct Order {
        EpochOptions epoch_options;
        std::shared_ptr<const std::vector<uint32_t>> batches;  ///< of the first rank, and so on
    };

    std::size_t batch_of(uint64_t position, uint64_t rank) const {
        return (*order_.batches)[rank * batches() + position];
    }
    uint64_t samples_of(uint64_t position, uint64_t rank) const {
        return batches_->piece(batch_of(position, rank)).count;
    }
    double cost_of(std::size_t batch) const {
        const RankBatches::Piece& piece = batches_->piece(batch);
        if (piece.count == 0) return 0;
        const Bucket& bucket = plan_->buckets()[piece.bucket];
        return bucket.cost * static_cast<double>(piece.count) /
               static_cast<double>(bucket.batch_size);
    }
    uint32_t sample_at(uint32_t place) const { return (*samples_)[plan_->order()[place]]; }
    double size_at(uint32_t place) const { return mixture_->choice()->size_of(sample_at(place)); }
    void fill_part(std::size_t of, uint64_t first, uint64_t count, Batch& batch) const {
        const std::span<const uint32_t> places =
            batches_->places(of, order_.epoch_options, places_);
        batch.fill(count, [&](uint64_t i) {
            const uint32_t place = places[first + i];
            return Sample{sample_at(place), size_at(place)};
        });
        if (count == 0) return;
        const std::size_t bucket = batches_->piece(of).bucket;
        batch.bucket = static_cast<int64_t>(bucket);
        batch.id = plan_->buckets()[bucket].id;
        if (plan_->has_few_shapes())
            pad_to(*plan_, bucket, batch);
        else
            batch.padded_length[0] = plan_->padded(batch.longest[0]);
    }

    std::shared_ptr<const ShardedMixture> mixture_;
    std::shared_ptr<const std::vector<uint32_t>> samples_;  ///< that the plan has numbers of
    std::shared_ptr<const Plan> plan_;
    std::shared_ptr<const RankBatches> batches_;
    Order order_{};
    mutable std::vector<uint32_t> places_{};
};

std::unique_ptr<Sequence::EpochOrder> ShardedBatches::make_epoch_order(
    const EpochOptions& epoch_options) const {
    const EpochChoice& choice = *mixture_->choice();
    SourceAmounts amounts(choice.sources(), choice.extremes().second);
    std::vector<double> costs;
    for (std::size_t b = 0; b < shards() * batches(); ++b) {
        const std::span places = batches_->places(b, epoch_options, places_);
        amounts.add(places.size(), [&](std::size_t i) {
            const uint32_t sample = sample_at(places[i]);
            return SourceAmounts::Part{choice.source_of()[sample], choice.size_of(sample)};
        });
        amounts.finish();
        costs.push_back(cost_of(b));
    }
    return std::make_unique<EpochOrderOf<Order>>(
        Order{epoch_options, std::make_shared<const std::vector<uint32_t>>(
                                 even_steps(amounts, costs, shards(), epoch_options))});
}

}  // namespace

void write_samples(const Sorted& shard, std::span<const uint16_t> source_of,
                   std::span<ToldSample> told) {
    for (std::size_t d = 0; d < shard.distinct_sizes.size(); ++d)
        for (uint32_t i = shard.first_offsets[d]; i < shard.first_offsets[d + 1]; ++i) {
            const uint32_t sample = shard.order[i];
            told[sample] = {static_cast<uint16_t>(d), static_cast<uint16_t>(d >> 16),
                            source_of[sample]};
        }
}

ShardedMixture::ShardedMixture(const EpochChoice& choice, const Histograms& histograms,
                               std::span<const ToldSample> told, const PlanOptions& options,
                               const Ranks& ranks)
    : rank_(ranks.rank) {
    const std::size_t most = told.size() / ranks.world_size;
    std::vector<double> sizes;
    std::vector<uint16_t> source_of;
    const std::vector<uint64_t> counts = count_samples(histograms);
    for (std::size_t r = 0; r < counts.size(); ++r) {
        first_.push_back(static_cast<uint32_t>(sizes.size()));
        read_slot(r, histograms.of(r), told.subspan(r * most, counts[r]), choice.sources(), sizes,
                  source_of);
    }
    first_.push_back(static_cast<uint32_t>(sizes.size()));
    std::vector<int64_t> ids;
    if (options.has_ids)
        for (const uint16_t source : source_of) ids.push_back(choice.id(source));
    const auto all = choice.of_others(sizes, std::move(source_of));
    const Columns columns(Sizes(sizes.data(), sizes.size(), SAB_FLOAT64, sizeof(double), nullptr));
    plans_ =
        std::make_unique<const MixedPlans>(columns.dense().chosen_by(all), options, std::move(ids));
    Hasher hasher;
    hasher.add(plans_->fingerprint());
    hasher.add_all(first_);
    fingerprint_ = hasher.digest();
}

uint64_t ShardedMixture::rank_of(uint32_t sample) const {
    // Of ranks without samples the last one begins where the next one does.
    const auto after = std::upper_bound(first_.begin(), first_.end() - 1, sample);
    return static_cast<uint64_t>(after - first_.begin()) - 1;
}

EpochSequence ShardedMixture::make(uint64_t epoch) const {
    MixedPlans::OfEpoch of_epoch = plans_->make(epoch);
    const uint64_t fewest = of_epoch.plan->fewest();
    auto batches = std::make_unique<ShardedBatches>(shared_from_this(), std::move(of_epoch));
    if (batches->batches() == 0)
        refuse_argument("plan.min_batch_size", fewest, "some rank has fewer samples in epoch ",
                        epoch);
    if (const uint64_t left_out = batches->left_out(); left_out > 0)
        log(SAB_LOG_WARNING, "epoch ", epoch, " leaves out ", left_out,
            " samples of all ranks: not every rank has samples for a batch of ", fewest,
            ", the plan's min_batch_size");
    return {nullptr, std::move(batches)};
}

}  // namespace sab
