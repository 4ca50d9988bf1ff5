/// The batches are those that BucketSequence makes of the plan of the epoch. Since the samples of
/// an epoch are given in order of size, bucket by bucket, all batches are written in one pass.
#include "sampler/mixed_buckets.h"

#include <algorithm>
#include <numeric>

#include "sampler/bucket_classes.h"
#include "sampler/even_order.h"

namespace sab {
namespace {

/// What is known of the sizes of a batch.
struct LaidOut {
    double longest;
    double total;
};

/// A batch of the order.
struct Place {
    uint32_t batch_class;
    uint32_t batch;  ///< of the class
    LaidOut sizes;
};

/// What an epoch has.
struct MixedEpoch {
    uint64_t epoch = 0;
    std::shared_ptr<const Plan> plan;
    std::vector<BucketClass> classes;
    std::vector<uint32_t> first_batch;  ///< of each class; one more at the end: how many there are
    CostOrder order;
    std::unique_ptr<uint32_t[]> samples;  ///< by bucket, permuted
    std::vector<Place> places;            ///< the batches in order
};

/// Writes the batches of an epoch.
class Layout {
public:
    Layout(const SortedMixture& mixture, const EpochChoice& choice, MixedEpoch& epoch,
           std::span<const SourceTurns> turns)
        : epoch_(epoch), walk_(mixture, turns), amount_(choice.sources()) {
        const Plan& plan = *epoch.plan;
        epoch.samples.reset(new uint32_t[plan.facts().samples]);
        batches_.resize(epoch.first_batch.back());
        ends_.resize(batches_.size());
        std::size_t most = 0;
        for (const BucketClass& each : epoch.classes)
            most += each.batches.batches *
                    std::min<std::size_t>(each.batches.samples, choice.sources());
        source_.reset(new uint16_t[most]);
        of_source_.reset(new double[most]);
        std::vector<std::size_t> by_place(plan.buckets().size());
        std::iota(by_place.begin(), by_place.end(), std::size_t{0});
        std::ranges::stable_sort(by_place, {},
                                 [&](std::size_t b) { return plan.buckets()[b].begin; });
        std::vector<std::vector<std::size_t>> classes_of(by_place.size());
        for (std::size_t k = 0; k < epoch.classes.size(); ++k)
            classes_of[epoch.classes[k].bucket].push_back(k);
        uint64_t place = 0;
        for (const std::size_t b : by_place) {
            const Bucket& bucket = plan.buckets()[b];
            if (classes_of[b].empty()) continue;
            walk_.take(bucket.begin - place, entries_);  // samples in no batch
            walk_.take(bucket.samples(), entries_);
            place = bucket.end;
            offsets_.resize(bucket.samples());
            Permutation(bucket.samples(), epoch.order.samples_key(b)).fill(0, offsets_);
            for (const std::size_t k : classes_of[b]) add_batches(k);
        }
    }

    const LaidOut& batch(uint32_t id) const { return batches_[id]; }
    /// In the order of `ids`.
    SourceAmounts amounts(std::span<const uint32_t> ids) const {
        constexpr std::size_t ahead = 8;  // batches are at random places of more than most caches
        SourceAmounts made;
        made.ends.reserve(ids.size());
        made.source.resize(end_);
        made.amount.resize(end_);
        std::size_t end = 0;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (i + 2 * ahead < ids.size()) {
                __builtin_prefetch(&ends_[ids[i + 2 * ahead]]);
                const uint32_t next = ends_[ids[i + ahead]].first;
                __builtin_prefetch(source_.get() + next);
                __builtin_prefetch(of_source_.get() + next);
            }
            const auto [first, last] = ends_[ids[i]];
            for (std::size_t j = first; j < last; ++j, ++end) {
                made.source[end] = source_[j];
                made.amount[end] = of_source_[j];
            }
            made.ends.push_back(static_cast<uint32_t>(end));
        }
        return made;
    }

private:
    void add_batches(std::size_t k) {
        const BucketClass& of = epoch_.classes[k];
        const std::size_t count = offsets_.size();
        for (uint64_t j = 0; j < of.batches.batches; ++j) {
            const auto id = static_cast<uint32_t>(epoch_.first_batch[k] + j);
            const uint64_t begin = of.first + j * of.batches.samples,
                           end = begin + of.batches.samples;
            // only a batch of SAB_TAIL_WRAP reaches past the end
            for (uint64_t done = begin, some = 0; done < end; done += some) {
                some = std::min(end - done, count - done % count);
                add_samples(k, done % count, some, id);
            }
            finish(id);
        }
    }

    /// Adds `count` samples from a place of the bucket on to a batch.
    void add_samples(std::size_t k, std::size_t place, std::size_t count, uint32_t id) {
        uint32_t* const out =
            epoch_.samples.get() + epoch_.plan->buckets()[epoch_.classes[k].bucket].begin + place;
        const SortedMixture::Entry* const entries = entries_.data();
        const uint32_t* const offsets = offsets_.data() + place;
        sizes_.resize(std::max(sizes_.size(), count));
        sources_.resize(sizes_.size());
        found_.resize(std::max(found_.size(), found_count_ + count));
        double* const sizes = sizes_.data();
        uint16_t *const sources = sources_.data(), *const found = found_.data();
        // Reads do not wait for the sums, and are many at a time.
        uint32_t last = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const SortedMixture::Entry& entry = entries[offsets[i]];
            last = std::max(last, offsets[i]);
            out[i] = entry.sample();
            sizes[i] = entry.size;
            sources[i] = entry.source();
        }
        batches_[id].longest = std::max(batches_[id].longest, entries[last].size);
        std::size_t all_found = found_count_;
        for (std::size_t i = 0; i < count; ++i) {
            Amount& amount = amount_[sources[i]];
            found[all_found] = sources[i];
            all_found += amount.last_batch != id;
            amount.last_batch = id;
            amount.sums[i % sums] += sizes[i];
        }
        found_count_ = all_found;
    }

    void finish(uint32_t id) {
        uint16_t* const sources = source_.get() + end_;
        double* const of_source = of_source_.get() + end_;
        double total = 0;
        for (std::size_t i = 0; i < found_count_; ++i) {
            Amount& amount = amount_[found_[i]];
            const double sum = std::accumulate(amount.sums, amount.sums + sums, 0.0);
            sources[i] = found_[i];
            of_source[i] = sum;
            std::fill_n(amount.sums, sums, 0.0);
            total += sum;
        }
        batches_[id].total = total;
        ends_[id] = {static_cast<uint32_t>(end_), static_cast<uint32_t>(end_ + found_count_)};
        end_ += found_count_;
        found_count_ = 0;
    }

    /// Several sums in turn do not wait for each other.
    static constexpr std::size_t sums = 4;
    struct Amount {
        double sums[Layout::sums] = {};
        uint32_t last_batch = ~uint32_t{0};
    };

    MixedEpoch& epoch_;
    SortedMixture::Walk walk_;
    // of the bucket at hand:
    std::vector<SortedMixture::Entry> entries_;
    std::vector<uint32_t> offsets_;
    // of the batch at hand:
    std::vector<double> sizes_;
    std::vector<uint16_t> sources_;
    std::vector<Amount> amount_;   ///< by source
    std::vector<uint16_t> found_;  ///< the first `found_count_` are its sources
    std::size_t found_count_ = 0;
    // of all batches, by id:
    std::vector<LaidOut> batches_;
    std::vector<std::pair<uint32_t, uint32_t>> ends_;  ///< in what follows
    std::unique_ptr<uint16_t[]> source_;
    std::unique_ptr<double[]> of_source_;
    std::size_t end_ = 0;  ///< of those that are known
};

class MixedBuckets : public Sequence {
public:
    // The ranks take the batches of a step in their order: each is near the dues, and none of them
    // is always the longest.
    explicit MixedBuckets(std::shared_ptr<const MixedPlans> plans) : plans_(std::move(plans)) {}

    std::unique_ptr<Sequence> copy() const override {
        return std::make_unique<MixedBuckets>(*this);
    }
    const EpochChoice* choice() const override { return plans_->choice().get(); }
    SamplerKind kind() const override { return kind_of("sab_bucket_sampler_new"); }
    uint64_t fingerprint() const override { return plans_->fingerprint(); }
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
        made->classes = bucket_classes(*made->plan);
        made->order = cost_order(made->classes).with_options(epoch_options);
        made->first_batch.push_back(0);
        for (const BucketClass& each : made->classes)
            made->first_batch.push_back(made->first_batch.back() +
                                        static_cast<uint32_t>(each.batches.batches));
        const Layout layout(plans_->sorted(), *choice(), *made, turns);
        put_in_order(layout, choice()->sources(), epoch_options, *made);
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
    PerColumn total(uint64_t position) const override {
        return {present_->places[position].sizes.total};
    }
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override;

private:
    static void put_in_order(const Layout& layout, std::size_t sources,
                             const EpochOptions& epoch_options, MixedEpoch& epoch);
    void read_ahead(uint64_t position) const;
    const BucketClass& class_of(uint64_t position) const {
        return present_->classes[present_->places[position].batch_class];
    }

    std::shared_ptr<const MixedPlans> plans_;
    std::shared_ptr<const MixedEpoch> present_;
};

/// The order of the epoch, of ids of batches.
void MixedBuckets::put_in_order(const Layout& layout, std::size_t sources,
                                const EpochOptions& epoch_options, MixedEpoch& epoch) {
    const uint64_t count = epoch.order.batches();
    const std::vector<CostOrder::Found> found = epoch.order.find_all();
    std::vector<uint32_t> ids(count);
    std::vector<double> costs(count);
    std::vector<uint64_t> samples(count);
    for (uint64_t position = 0; position < count; ++position) {
        const auto [k, batch] = found[position];
        ids[position] = epoch.first_batch[k] + static_cast<uint32_t>(batch);
        costs[position] = epoch.classes[k].batches.cost;
        samples[position] = epoch.classes[k].batches.samples;
    }
    epoch.places.reserve(count);
    for (const uint32_t batch :
         even_epoch(layout.amounts(ids), sources, costs, samples, epoch_options))
        epoch.places.push_back({static_cast<uint32_t>(found[batch].batch_class),
                                static_cast<uint32_t>(found[batch].batch),
                                layout.batch(ids[batch])});
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
        std::copy_n(samples + from, some, indices + done);
    }
    batch.longest[0] = place.sizes.longest;
    batch.total[0] = place.sizes.total;
    if (count < of.batches.samples) {
        batch.longest[0] = batch.total[0] = 0;
        for (uint64_t i = 0; i < count; ++i) {
            const double size = choice()->size_of(static_cast<std::size_t>(indices[i]));
            batch.longest[0] = std::max(batch.longest[0], size);
            batch.total[0] += size;
        }
    }
    batch.bucket = static_cast<int64_t>(of.bucket);
    batch.padded_length[0] = plan.facts().pads_to_bucket != 0
                                 ? plan.lengths(of.bucket).padded_length[0]
                                 : plan.padded(batch.longest[0]);
}

}  // namespace

std::unique_ptr<Sequence> make_mixed_buckets(std::shared_ptr<const MixedPlans> plans) {
    return std::make_unique<MixedBuckets>(std::move(plans));
}

}  // namespace sab
