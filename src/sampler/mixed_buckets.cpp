/// The plan of an epoch is cut into batches as by BucketSequence. Since the samples of an epoch are
/// given in order of size, bucket by bucket, all batches are written in one pass.
#include "sampler/mixed_buckets.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/sorting.h"
#include "sampler/bucket_classes.h"
#include "sampler/copies.h"
#include "sampler/even_order.h"

namespace sab {
namespace {

/// Where the samples of a batch are, and their sizes.
struct Place {
    uint32_t batch_class;
    uint32_t batch;  ///< of the class
    double longest;
    double total;
};

/// What an epoch has.
struct MixedEpoch {
    uint64_t epoch = 0;
    std::shared_ptr<const Plan> plan;
    std::vector<BucketClass> classes;
    CostOrder order;
    HugeArray<uint32_t> samples;  ///< by bucket, permuted
    std::vector<Place> places;    ///< the batches in order
};

/// The samples of an epoch by bucket: those of SharedRuns are exchanged.
class ExchangedWalk {
public:
    ExchangedWalk(const SortedMixture& mixture, std::span<const SourceTurns> turns,
                  const EpochChoice& choice, const Plan& plan, const EpochOptions& epoch_options)
        : walk_(mixture, turns),
          choice_(choice),
          runs_(plan.shared_runs()),
          epoch_options_(epoch_options) {}

    /// As SortedMixture::Walk::take().
    template <class Visit>
    void take(std::size_t count, Visit&& visit) {
        for (std::size_t done = 0; done < count;) {
            if (!runs_.empty() && place_ == runs_.front().end) runs_ = runs_.subspan(1);
            const std::size_t left = count - done;
            const auto visit_from = [&](std::size_t i, const SortedMixture::Entry& entry,
                                        uint32_t counts) { visit(done + i, entry, counts); };
            std::size_t some = 0;
            if (runs_.empty() || place_ < runs_.front().begin) {
                some = runs_.empty() ? left : std::min(left, runs_.front().begin - place_);
                walk_.take(some, visit_from);
            } else {
                some = std::min(left, runs_.front().end - place_);
                take_shared(some, visit_from);
            }
            done += some;
            place_ += some;
        }
    }

private:
    struct Member {
        uint32_t sample;
        uint16_t source;
    };
    template <class Visit>
    void take_shared(std::size_t count, Visit&& visit) {
        const SharedRun& run = runs_.front();
        if (place_ == run.begin) read(run, run.end - run.begin);
        const Member* const members = members_->data();
        const bool is_one_size = !std::isnan(size_);
        constexpr std::size_t block = 1024;
        uint32_t chosen[block];
        for (std::size_t done = 0; done < count;) {
            const std::size_t some = std::min(block, count - done);
            permutation_.fill(place_ - run.begin + done, {chosen, some});
            for (std::size_t i = 0; i < some; ++i) {
                const Member& member = members[chosen[i]];
                visit(done + i,
                      {member.sample, member.source,
                       is_one_size ? size_ : choice_.size_of(member.sample)},
                      1);
            }
            done += some;
        }
    }
    void read(const SharedRun& run, std::size_t count) {
        auto members = std::make_shared<std::vector<Member>>(count);
        double least = std::numeric_limits<double>::infinity(), most = 0;
        walk_.take(count, [&](std::size_t i, const SortedMixture::Entry& entry, uint32_t counts) {
            (*members)[i] = {entry.sample, entry.source};
            least = counts > 0 ? std::min(least, entry.size) : least;
            most = counts > 0 ? entry.size : most;
        });
        members_ = std::move(members);
        size_ = least == most ? most : std::numeric_limits<double>::quiet_NaN();
        permutation_ = Permutation(count, permutation_key(epoch_options_.seed, epoch_options_.epoch,
                                                          Purpose::sizes, run.size_class));
    }

    SortedMixture::Walk walk_;
    const EpochChoice& choice_;
    std::span<const SharedRun> runs_;  ///< that do not end yet
    const EpochOptions epoch_options_;
    uint64_t place_ = 0;
    // of the run at hand:
    /// shared by copies of the walk: a run may lie in thousands of buckets, each of which makes one
    std::shared_ptr<const std::vector<Member>> members_;
    Permutation permutation_;
    double size_ = 0;  ///< of all members; not a number where they have several
};

/// Writes the batches of an epoch.
class Layout {
public:
    Layout(const SortedMixture& mixture, const EpochChoice& choice, MixedEpoch& epoch,
           std::span<const SourceTurns> turns)
        : epoch_(epoch),
          choice_(choice),
          walk_(mixture, turns, choice, *epoch.plan, epoch.order.epoch_options()),
          amounts_(choice.sources(), choice.extremes().second),
          first_(epoch.classes.size()) {
        const Plan& plan = *epoch.plan;
        epoch.samples = make_huge_array<uint32_t>(plan.facts().samples);
        places_.reserve(epoch.order.batches());
        std::vector<std::vector<std::size_t>> classes_of(plan.buckets().size());
        std::size_t blocks = 0;
        for (std::size_t k = 0; k < epoch.classes.size(); ++k) {
            classes_of[epoch.classes[k].bucket].push_back(k);
            blocks += amounts_.blocks_of(epoch.classes[k].batches.samples) *
                      epoch.classes[k].batches.batches;
        }
        amounts_.reserve(epoch.order.batches(), blocks);
        const bool has_copies = std::ranges::any_of(turns, &SourceTurns::has_copies);
        if (has_copies) first_places_.assign(choice.source_of().size(), no_place);
        uint64_t place = 0;
        for (const uint32_t b : by_ascending(keys_of(plan.buckets(), &Bucket::begin))) {
            const Bucket& bucket = plan.buckets()[b];
            if (classes_of[b].empty()) continue;
            walk_.take(bucket.begin - place, [](auto&&...) {});  // samples in no batch
            place = bucket.end;
            offsets_.resize(bucket.samples());
            Permutation(bucket.samples(), epoch.order.samples_key(b)).fill(0, offsets_);
            if (has_copies) separate(bucket, epoch.order.samples_key(b));
            if (!plan.has_few_shapes() && can_sum(bucket))  // else pieces may be batches
                add_by_sums(bucket, classes_of[b]);
            else
                add_by_parts(bucket, classes_of[b]);
        }
    }

    /// By id: in the order in which they are laid out.
    const std::vector<Place>& places() const { return places_; }
    const SourceAmounts& amounts() const { return amounts_; }
    /// Adds a piece of a batch, as a class of its own.
    void add_piece(const BatchPiece& piece) {
        const Place& whole = places_[piece.batch];
        BucketClass of = epoch_.classes[whole.batch_class];
        of.first += whole.batch * of.batches.samples + piece.first;
        of.batches.cost *=
            static_cast<double>(piece.count) / static_cast<double>(of.batches.samples);
        of.batches.samples = piece.count;
        of.batches.batches = 1;
        const Bucket& bucket = epoch_.plan->buckets()[of.bucket];
        double longest = 0;
        amounts_.add(piece.count, [&](std::size_t i) {
            const uint32_t sample =
                epoch_.samples[bucket.begin + (of.first + i) % bucket.samples()];
            const double size = choice_.size_of(sample);
            longest = std::max(longest, size);
            return SourceAmounts::Part{choice_.source_of()[sample], size};
        });
        const double total = amounts_.finish_piece();
        places_.push_back({static_cast<uint32_t>(epoch_.classes.size()), 0, longest, total});
        epoch_.classes.push_back(of);
    }
    uint32_t id(const CostOrder::Found& found) const {
        return first_[found.batch_class] + static_cast<uint32_t>(found.batch);
    }

private:
    static std::size_t batches_of(const Bucket& bucket) {
        return (bucket.samples() + bucket.batch_size - 1) / bucket.batch_size;
    }
    /// Whether a sum for each batch and source takes little memory, or no more than the parts.
    bool can_sum(const Bucket& bucket) const {
        constexpr uint64_t few = 1 << 17;
        return bucket.batch_size > 1 && epoch_.plan->facts().tail != SAB_TAIL_WRAP &&
               batches_of(bucket) * amounts_.width() <= std::max(few, 2 * bucket.samples());
    }

    /// Keeps copies of a sample out of one batch. The walk stays where it is.
    void separate(const Bucket& bucket, uint64_t key) {
        const auto begin = static_cast<uint32_t>(bucket.begin);
        firsts_.resize(bucket.samples());
        ExchangedWalk ahead = walk_;
        ahead.take(bucket.samples(),
                   [&](std::size_t i, const SortedMixture::Entry& entry, uint32_t counts) {
                       if (counts == 0) return;
                       uint32_t& first = first_places_[entry.sample];
                       const uint32_t place = begin + static_cast<uint32_t>(i);
                       // The first copy may be in a bucket before this one.
                       if (first == no_place || first < begin) first = place;
                       firsts_[i] = first - begin;
                   });
        separate_copies(offsets_, firsts_, bucket.batch_size, key);
    }

    /// Sums up while samples are written. Not inline, for its registers.
    [[gnu::noinline]] void add_by_sums(const Bucket& bucket, std::span<const std::size_t> classes) {
        const std::size_t size = bucket.batch_size, width = amounts_.width(),
                          batches = batches_of(bucket);
        longest_.assign(batches, 0);
        sums_.assign(batches * width, 0);
        // Exact for sizes above 1 and offsets of 32 bits.
        const uint64_t inverse = ~uint64_t{0} / size + 1;
        uint32_t* const out = epoch_.samples.get() + bucket.begin;
        const uint32_t* const offsets = offsets_.data();
        double *const longest = longest_.data(), *const sums = sums_.data();
        walk_.take(bucket.samples(),
                   [=](std::size_t i, const SortedMixture::Entry& entry, uint32_t counts) {
                       const uint32_t offset = offsets[i];
                       const std::size_t batch = multiply_high(offset, inverse);
                       out[offset] = entry.sample;
                       longest[batch] = std::max(longest[batch], entry.size);
                       sums[batch * width + entry.source] += counts * entry.size;
                   });
        for (const std::size_t k : classes) {
            const std::size_t first = epoch_.classes[k].first / size;
            add_class(k, [&](std::size_t j) {
                return std::pair(longest[first + j], amounts_.finish(sums + (first + j) * width));
            });
        }
    }

    void add_by_parts(const Bucket& bucket, std::span<const std::size_t> classes) {
        const std::size_t count = bucket.samples();
        parts_.resize(std::max(parts_.size(), count));
        uint32_t* const out = epoch_.samples.get() + bucket.begin;
        const uint32_t* const offsets = offsets_.data();
        SourceAmounts::Part* const parts = parts_.data();
        walk_.take(count, [=](std::size_t i, const SortedMixture::Entry& entry, uint32_t) {
            out[offsets[i]] = entry.sample;
            parts[offsets[i]] = {entry.source, entry.size};
        });
        for (const std::size_t k : classes) {
            const BucketClass& of = epoch_.classes[k];
            add_class(k, [&](std::size_t j) {
                double longest = 0;
                // a piece of a batch of SAB_TAIL_WRAP may begin past the end
                std::size_t place = (of.first + j * of.batches.samples) % count;
                amounts_.add(of.batches.samples, [&](std::size_t) {
                    // only a batch of SAB_TAIL_WRAP reaches past the end
                    const SourceAmounts::Part& part = parts[place];
                    place = place + 1 == count ? 0 : place + 1;
                    longest = std::max(longest, part.size);
                    return part;
                });
                return std::pair(longest, amounts_.finish());
            });
        }
    }

    /// `sizes`: of batch j the longest and the total.
    template <class Sizes>
    void add_class(std::size_t k, Sizes&& sizes) {
        first_[k] = static_cast<uint32_t>(places_.size());
        for (uint32_t j = 0; j < epoch_.classes[k].batches.batches; ++j) {
            const auto [longest, total] = sizes(j);
            places_.push_back({static_cast<uint32_t>(k), j, longest, total});
        }
    }

    MixedEpoch& epoch_;
    const EpochChoice& choice_;
    ExchangedWalk walk_;
    // of the bucket at hand:
    std::vector<uint32_t> offsets_, firsts_;
    std::vector<double> longest_, sums_;  ///< of each batch; sums also by source
    std::vector<SourceAmounts::Part> parts_;
    /// of each sample, the first one in the bucket at hand or in one before it
    std::vector<uint32_t> first_places_;
    static constexpr uint32_t no_place = ~uint32_t{0};
    // of all batches, by id:
    std::vector<Place> places_;
    SourceAmounts amounts_;
    std::vector<uint32_t> first_;  ///< id of the first batch of each class
};

class MixedBuckets : public Sequence {
public:
    // The ranks take the batches of a step in their order: each is near the dues, and none of them
    // is always the longest.
    MixedBuckets(std::shared_ptr<const MixedPlans> plans, std::optional<Cost> balance,
                 uint64_t fingerprint)
        : plans_(std::move(plans)), balance_(std::move(balance)), fingerprint_(fingerprint) {}

    std::unique_ptr<Sequence> copy() const override {
        return std::make_unique<MixedBuckets>(*this);
    }
    Rule rule() const override { return Rule::dues; }
    const EpochChoice* choice() const override { return plans_->choice().get(); }
    SamplerKind kind() const override { return kind_of("sab_bucket_sampler_new"); }
    uint64_t fingerprint() const override { return fingerprint_; }
    std::size_t skipped(std::span<int64_t> room) const override {
        return plans_->skipped(present_->epoch, room);
    }
    uint64_t batches() const override { return present_->places.size(); }
    const Plan* plan() const override { return present_->plan.get(); }

    std::unique_ptr<EpochOrder> make_epoch_order(const EpochOptions& epoch_options) const override {
        auto made = std::make_shared<MixedEpoch>();
        made->epoch = epoch_options.epoch;
        const std::vector<SourceTurns> turns = choice()->source_turns(made->epoch);
        if (present_ != nullptr && choice()->are_alike(present_->epoch, made->epoch))
            made->plan = present_->plan;
        else
            made->plan = plans_->make_unordered(turns);
        made->classes =
            filling_steps(*made->plan, bucket_classes(*made->plan, balance_ ? &*balance_ : nullptr),
                          epoch_options.filled(), 1);  // copies are kept apart by batches
        EpochOptions mixed = epoch_options;
        mixed.mix_lengths = true;  // batches are moved to keep the dues
        made->order = cost_order(*made->plan, made->classes).with_options(mixed);
        Layout layout(plans_->sorted(), *choice(), *made, turns);
        put_in_order(layout, *made);
        return std::make_unique<EpochOrderOf<std::shared_ptr<const MixedEpoch>>>(std::move(made));
    }
    void exchange(EpochOrder& epoch_order) noexcept override {
        std::swap(present_,
                  static_cast<EpochOrderOf<std::shared_ptr<const MixedEpoch>>&>(epoch_order).value);
    }

    std::size_t bucket(uint64_t position) const override { return class_of(position).bucket; }
    uint64_t samples(uint64_t position) const override {
        return class_of(position).batches.samples;
    }
    double cost(uint64_t position) const override { return class_of(position).batches.cost; }
    PerColumn total(uint64_t position) const override { return {present_->places[position].total}; }
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override;

private:
    static void put_in_order(Layout& layout, MixedEpoch& epoch);
    void read_ahead(uint64_t position) const;
    const BucketClass& class_of(uint64_t position) const {
        return present_->classes[present_->places[position].batch_class];
    }

    std::shared_ptr<const MixedPlans> plans_;
    std::optional<Cost> balance_;
    uint64_t fingerprint_;
    std::shared_ptr<const MixedEpoch> present_;
};

void MixedBuckets::put_in_order(Layout& layout, MixedEpoch& epoch) {
    std::vector<uint32_t> ids;
    std::vector<double> costs;
    std::vector<uint64_t> samples;
    ids.reserve(layout.places().size());
    costs.reserve(ids.capacity());
    samples.reserve(ids.capacity());
    for (const CostOrder::Found& found : epoch.order.find_all()) ids.push_back(layout.id(found));
    for (const Place& place : layout.places()) {
        costs.push_back(epoch.classes[place.batch_class].batches.cost);
        samples.push_back(epoch.classes[place.batch_class].batches.samples);
    }
    const std::vector<uint32_t> order =
        even_epoch_in_pieces(layout.amounts(), ids, costs, samples, epoch.order.epoch_options(),
                             epoch.plan.get(), [&](const BatchPiece& piece) {
                                 layout.add_piece(piece);
                                 return epoch.classes.back().batches.cost;
                             });
    epoch.places.reserve(order.size());
    for (const uint32_t id : order) epoch.places.push_back(layout.places()[id]);
}

/// Batches that follow each other lie apart: what fill() will read of one is asked for.
void MixedBuckets::read_ahead(uint64_t position) const {
    constexpr std::size_t line = 64 / sizeof(uint32_t);
    if (position >= present_->places.size()) return;
    const Place& place = present_->places[position];
    const BucketClass& of = present_->classes[place.batch_class];
    const Bucket& bucket = present_->plan->buckets()[of.bucket];
    const uint64_t begin = bucket.begin + of.first + place.batch * of.batches.samples,
                   end = std::min(begin + of.batches.samples, bucket.end);
    for (uint64_t i = begin; i < end; i += line) __builtin_prefetch(present_->samples.get() + i);
    __builtin_prefetch(present_->samples.get() + end - 1);
}

/// As std::copy_n, with vectors.
void widen(const uint32_t* from, std::size_t count, int64_t* to) {
    constexpr std::size_t stretch = 16;
    std::size_t i = 0;
    for (; i + stretch <= count; i += stretch)
        for (std::size_t j = 0; j < stretch; ++j) to[i + j] = from[i + j];
    for (; i < count; ++i) to[i] = from[i];
}

void MixedBuckets::fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const {
    read_ahead(position + 2 * present_->order.epoch_options().step_batches);
    int64_t* const indices = batch.room(count).data();
    batch.columns = 1;
    batch.bucket = -1;
    batch.longest[0] = batch.total[0] = batch.padded_length[0] = 0;
    if (count == 0) return;
    const Place& place = present_->places[position];
    const BucketClass& of = present_->classes[place.batch_class];
    const Plan& plan = *present_->plan;
    const Bucket& bucket = plan.buckets()[of.bucket];
    const uint32_t* const samples = present_->samples.get() + bucket.begin;
    const uint64_t begin = of.first + place.batch * of.batches.samples + first;
    // only a batch of SAB_TAIL_WRAP reaches past the end
    for (uint64_t done = 0, some = 0; done < count; done += some) {
        const uint64_t from = (begin + done) % bucket.samples();
        some = std::min(count - done, bucket.samples() - from);
        widen(samples + from, some, indices + done);
    }
    batch.longest[0] = place.longest;
    batch.total[0] = place.total;
    if (count < of.batches.samples) {
        batch.longest[0] = batch.total[0] = 0;
        for (uint64_t i = 0; i < count; ++i) {
            const double size = choice()->size_of(static_cast<std::size_t>(indices[i]));
            batch.longest[0] = std::max(batch.longest[0], size);
            batch.total[0] += size;
        }
    }
    batch.bucket = static_cast<int64_t>(of.bucket);
    if (plan.has_few_shapes())
        pad_to(plan, of.padded_to, batch);
    else
        batch.padded_length[0] = plan.padded(batch.longest[0]);
}

}  // namespace

std::unique_ptr<Sequence> make_mixed_buckets(std::shared_ptr<const MixedPlans> plans,
                                             std::optional<Cost> balance, uint64_t fingerprint) {
    return std::make_unique<MixedBuckets>(std::move(plans), std::move(balance), fingerprint);
}

}  // namespace sab
