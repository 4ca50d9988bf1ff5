/// The bucket order, version 3; see README.md in this folder.
///
/// The samples of a batch are a range of the bucket's permutation, after Exchange. CostOrder orders
/// the batches.
#include <algorithm>
#include <numeric>
#include <optional>

#include "base/guard.h"
#include "base/hasher.h"
#include "base/sorting.h"
#include "sampler/bucket_classes.h"
#include "sampler/copies.h"
#include "sampler/cursor.h"
#include "sampler/exchange.h"
#include "sampler/mixed_buckets.h"
#include "sampler/mixed_sequence.h"

namespace sab {

namespace {

/// Of the batches of a class: the cost that steps even out, and what they are sorted by.
void price(const Plan& plan, const Cost* balance, BucketClass& of) {
    const std::span<const double> lengths = plan.lengths(of.bucket).padded_length;
    BatchClass& batches = of.batches;
    // those of few shapes are divided by themselves
    if (!plan.has_few_shapes()) batches.chain = of.bucket;
    if (balance != nullptr)
        batches.cost = batches.length = (*balance)(batches.samples, lengths);
    else
        batches.length = std::accumulate(lengths.begin(), lengths.end(), 0.0);
}

}  // namespace

std::vector<BucketClass> bucket_classes(const Plan& plan, const Cost* balance) {
    std::vector<BucketClass> classes;
    const auto buckets = plan.buckets();
    for (std::size_t b = 0; b < buckets.size(); ++b) {
        const Bucket& bucket = buckets[b];
        if (bucket.batches == 0) continue;
        const uint64_t full = plan.facts().tail == SAB_TAIL_WRAP
                                  ? bucket.batches
                                  : bucket.samples() / bucket.batch_size;
        const uint64_t tail = bucket.samples() % bucket.batch_size;
        if (full > 0) classes.push_back({b, 0, {bucket.batch_size, full, bucket.cost}});
        if (bucket.batches > full) {
            // With full batches beside it, a tail's cost is its share of theirs; alone, it is the
            // largest batch itself.
            const double cost = full > 0 ? bucket.cost * static_cast<double>(tail) /
                                               static_cast<double>(bucket.batch_size)
                                         : bucket.cost;
            classes.push_back({b, full * bucket.batch_size, {tail, 1, cost}});
        }
    }
    const auto cost_of = [](const BucketClass& each) { return each.batches.cost; };
    std::vector<BucketClass> sorted;
    sorted.reserve(classes.size());
    for (const uint32_t k : by_descending(keys_of(classes, cost_of))) {
        sorted.push_back(classes[k]);
        price(plan, balance, sorted.back());
    }
    return sorted;
}

/// The last batches of a class are divided. Each piece is a class of its own.
std::vector<BucketClass> filling_steps(const Plan& plan, const std::vector<BucketClass>& classes,
                                       uint64_t step_batches, uint64_t joined) {
    uint64_t over = 0;
    std::vector<BucketShape> of_classes;
    std::vector<std::size_t> divided;  // classes
    // those that are divided with the others of their bucket
    std::vector<std::size_t> tail_of(plan.buckets().size(), classes.size());
    for (std::size_t k = 0; const BucketClass& each : classes) {
        over = (over + each.batches.batches) % step_batches;
        of_classes.push_back({each.batches.samples, each.bucket});
        const bool follows = each.first > 0 && joined > 1;
        if (follows) tail_of[each.bucket] = k;
        if (!follows) divided.push_back(k);
        ++k;
    }
    if (over == 0 || !plan.has_few_shapes()) return classes;
    std::vector<DivisibleBatch> divisible;
    for (const std::size_t k : divided) {
        const BatchClass& batches = classes[k].batches;
        const std::size_t tail = tail_of[classes[k].bucket];
        divisible.push_back({classes[k].bucket, batches.samples, batches.batches,
                             tail < classes.size() ? classes[tail].batches.samples : 0});
    }
    std::vector<std::vector<BucketClass>> pieces(classes.size());  // by the class with their shape
    std::vector<BucketClass> whole = classes;
    for (const auto& [which, batches, has_tail, shapes] :
         divide_by_shapes(plan, of_classes, divisible, step_batches - over, joined)) {
        BucketClass& of = whole[divided[which]];
        BucketClass piece = of;
        of.batches.batches -= batches;
        piece.first += of.batches.batches * piece.batches.samples;
        if (has_tail) whole[tail_of[of.bucket]].batches.batches = 0;
        for (const std::size_t shape : shapes) {
            piece.batches = classes[shape].batches;
            piece.batches.batches = 1;
            piece.padded_to = classes[shape].bucket;
            pieces[shape].push_back(piece);
            piece.first += piece.batches.samples;
        }
    }
    std::vector<BucketClass> made;
    for (std::size_t k = 0; k < whole.size(); ++k) {
        if (whole[k].batches.batches > 0) made.push_back(whole[k]);
        made.insert(made.end(), pieces[k].begin(), pieces[k].end());
    }
    return made;
}

CostOrder cost_order(const Plan& plan, const std::vector<BucketClass>& classes) {
    std::vector<BatchClass> batches(classes.size());
    std::ranges::transform(classes, batches.begin(), &BucketClass::batches);
    return CostOrder(std::move(batches), plan.facts().min_batch_size);
}

namespace {

/// The batches of a set of buckets.
struct BucketSet {
    BucketSet(std::shared_ptr<const Plan> of, const Cost* balance)
        : plan(std::move(of)),
          classes(bucket_classes(*plan, balance)),
          order(cost_order(*plan, classes)),
          exchange(*plan) {}
    /// Of the same plan. The batches fill steps.
    BucketSet(const BucketSet& whole, uint64_t step_batches, uint64_t joined)
        : plan(whole.plan),
          classes(filling_steps(*plan, whole.classes, step_batches, joined)),
          order(cost_order(*plan, classes)),
          exchange(whole.exchange),
          filled(step_batches) {}
    std::shared_ptr<const Plan> plan;
    std::vector<BucketClass> classes;  ///< by cost, highest first
    CostOrder order;                   ///< of any epoch
    Exchange exchange;
    uint64_t filled = 1;  ///< batches of the steps that they fill
};

class BucketSequence : public CostOrderedSequence {
public:
    /// `samples`: of a mixture, those that the plan numbers; else null.
    BucketSequence(const std::shared_ptr<const Plan>& plan, const Cost* balance,
                   const std::vector<uint32_t>* samples)
        : even_(std::make_shared<const BucketSet>(plan, balance)),
          odd_(plan->second() ? std::make_shared<const BucketSet>(plan->second(), balance) : even_),
          fingerprint_(plan->fingerprint()),
          is_sorted_(balance == nullptr),
          set_(even_),
          reader_(plan) {
        order_ = set_->order;
        if (samples != nullptr) find_copies(*samples);
        if (balance == nullptr) return;
        Hasher hasher;
        hasher.add(fingerprint_);
        for (const BucketClass& each : even_->classes) hasher.add(each.batches.cost);
        if (odd_ != even_)
            for (const BucketClass& each : odd_->classes) hasher.add(each.batches.cost);
        fingerprint_ = hasher.digest();
    }

    std::unique_ptr<Sequence> copy() const override {
        return std::make_unique<BucketSequence>(*this);
    }
    SamplerKind kind() const override { return kind_of("sab_bucket_sampler_new"); }
    uint64_t fingerprint() const override { return fingerprint_; }
    std::size_t skipped(std::span<int64_t> room) const override {
        return set_->plan->skipped(room);
    }

    std::unique_ptr<EpochOrder> make_epoch_order(const EpochOptions& epoch_options) const override {
        const auto set = set_of(epoch_options);
        Present made{set, set->order.with_options(epoch_options), nullptr};
        if (first_copies_ != nullptr)
            made.separated = std::make_shared<const std::vector<uint32_t>>(separated(made.order));
        return std::make_unique<EpochOrderOf<Present>>(std::move(made));
    }
    void exchange(EpochOrder& epoch_order) noexcept override {
        Present& other = static_cast<EpochOrderOf<Present>&>(epoch_order).value;
        std::swap(set_, other.set);
        reader_.change(set_->plan);
        std::swap(order_, other.order);
        std::swap(separated_, other.separated);
    }

    const Plan* plan() const override { return set_->plan.get(); }
    std::size_t bucket(uint64_t position) const override { return found(position).bucket; }
    uint64_t samples(uint64_t position) const override { return found(position).batches.samples; }
    double cost(uint64_t position) const override { return found(position).batches.cost; }
    double length(uint64_t position) const override {
        return is_sorted_ ? found(position).batches.length : 0;
    }
    bool is_continued(uint64_t position) const override {
        const auto [batch_class, batch] = order_.find(position);
        const auto [next_class, next] = order_.find(position + 1);
        const BucketClass &own = set_->classes[batch_class], &other = set_->classes[next_class];
        return own.bucket == other.bucket && own.first + (batch + 1) * own.batches.samples ==
                                                 other.first + next * other.batches.samples;
    }

    BatchSums sums() const override { return sums_of(reader_.plan()); }
    PerColumn total(uint64_t position) const override {
        const auto [batch_class, batch] = order_.find(position);
        const BucketClass& own = set_->classes[batch_class];
        const Bucket& bucket = set_->plan->buckets()[own.bucket];
        const uint64_t samples = own.batches.samples;
        if (!set_->plan->is_coded() && bucket.distinct_end - bucket.distinct_begin == 1)
            return {static_cast<double>(samples) * set_->plan->lengths(own.bucket).longest[0]};
        return reader_.total(own.bucket, places(own, batch, 0, samples));
    }

    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override {
        const auto [batch_class, which] = order_.find(position);
        const BucketClass& own = set_->classes[batch_class];
        reader_.read(own.bucket, places(own, which, first, count), batch);
        if (own.padded_to != own.bucket && count > 0) pad_to(reader_.plan(), own.padded_to, batch);
    }

private:
    /// What an epoch has.
    struct Present {
        std::shared_ptr<const BucketSet> set;
        CostOrder order;
        std::shared_ptr<const std::vector<uint32_t>> separated;
    };

    std::shared_ptr<const BucketSet> set_of(const EpochOptions& epoch_options) const {
        const auto& set = has_second_buckets(epoch_options.epoch) ? odd_ : even_;
        const uint64_t filled = set->plan->has_few_shapes() ? epoch_options.filled() : 1;
        if (filled == 1) return set;
        if (set_->plan == set->plan && set_->filled == filled) return set_;
        // copies of a sample are kept apart by batches
        const uint64_t joined = first_copies_ == nullptr ? most_joined : 1;
        return std::make_shared<const BucketSet>(*set, filled, joined);
    }

    const BucketClass& found(uint64_t position) const {
        return set_->classes[order_.find(position).batch_class];
    }

    /// Places in the plan's order of a batch's samples.
    std::span<const uint32_t> places(const BucketClass& batch_class, uint64_t batch, uint64_t first,
                                     uint64_t count) const {
        const Bucket& bucket = set_->plan->buckets()[batch_class.bucket];
        if (places_.size() < count) places_.resize(count);
        const std::span<uint32_t> out(places_.data(), count);
        const uint64_t begin = batch_class.first + batch * batch_class.batches.samples + first;
        // Only a batch of SAB_TAIL_WRAP reaches past the end, where it goes on with the bucket's
        // first.
        for (uint64_t done = 0; done < count;) {
            const uint64_t from = (begin + done) % bucket.samples();
            const uint64_t stretch = std::min(count - done, bucket.samples() - from);
            if (separated_ == nullptr)
                fill_places(order_, batch_class.bucket, from, out.subspan(done, stretch));
            else
                std::copy_n(&(*separated_)[bucket.begin + from], stretch, out.data() + done);
            done += stretch;
        }
        return out;
    }

    void fill_places(const CostOrder& order, std::size_t bucket, uint64_t first,
                     std::span<uint32_t> out) const {
        set_->exchange.fill(set_->plan->buckets()[bucket], bucket, order.samples_key(bucket),
                            order.epoch_options(), first, out, room_);
    }

    void find_copies(const std::vector<uint32_t>& samples) {
        std::vector<uint32_t> firsts =
            first_copies(samples.size(), [&](uint32_t number) { return samples[number]; });
        if (!firsts.empty())
            first_copies_ = std::make_shared<const std::vector<uint32_t>>(std::move(firsts));
    }

    /// places() of all samples of an epoch, by bucket, with copies in different batches.
    std::vector<uint32_t> separated(const CostOrder& order) const {
        const Plan& plan = *set_->plan;  // of a mixture, which has one set
        std::vector<uint32_t> all(plan.facts().samples), samples, places, firsts;
        constexpr uint32_t none = ~uint32_t{0};
        std::vector<uint32_t> first_in(first_copies_->size(), none);  // the bucket at hand
        for (std::size_t b = 0; b < plan.buckets().size(); ++b) {
            const Bucket& bucket = plan.buckets()[b];
            samples.resize(bucket.samples());
            fill_places(order, b, 0, samples);
            places.resize(samples.size());
            std::iota(places.begin(), places.end(), 0);
            firsts.resize(samples.size());
            const auto first = [&](std::size_t i) -> uint32_t& {
                return first_in[(*first_copies_)[plan.order()[samples[i]]]];
            };
            for (uint32_t i = 0; i < samples.size(); ++i) {
                if (first(i) == none) first(i) = i;
                firsts[i] = first(i);
            }
            for (std::size_t i = 0; i < samples.size(); ++i) first(i) = none;
            separate_copies(places, firsts, bucket.batch_size, order.samples_key(b));
            for (std::size_t i = 0; i < samples.size(); ++i)
                all[bucket.begin + places[i]] = samples[i];
        }
        return all;
    }

    std::shared_ptr<const BucketSet> even_, odd_;  ///< of epochs with such numbers
    uint64_t fingerprint_;
    bool is_sorted_;                        ///< by length, where costs are nearly equal
    std::shared_ptr<const BucketSet> set_;  ///< of the epoch
    PlanReader reader_;
    /// Of a mixture that has copies, of each number the first one of the same sample; else null.
    std::shared_ptr<const std::vector<uint32_t>> first_copies_;
    std::shared_ptr<const std::vector<uint32_t>> separated_;  ///< of the epoch, or null
    mutable std::vector<uint32_t> places_;
    mutable Exchange::Room room_;
};

}  // namespace

std::unique_ptr<Sequence> make_bucket_sequence(const std::shared_ptr<const Plan>& plan,
                                               const Cost* balance) {
    return std::make_unique<BucketSequence>(plan, balance, nullptr);
}

std::unique_ptr<Sequence> make_bucket_sequence(const sab_plan& plan, const Cost* balance) {
    if (!has_mixtures || plan.epochs == nullptr) {
        plan.impl->need_order("samplers");
        return make_bucket_sequence(plan.impl, balance);
    }
    uint64_t fingerprint = plan.fingerprint();
    std::optional<Cost> kept;
    if (balance != nullptr) {
        if (balance->is_callback())
            refuse_argument("options.balance[0]", no_value,
                            "must not be a callback: each epoch of a mixture would call it");
        kept = *balance;
        Hasher hasher;
        hasher.add(fingerprint);
        hasher.add_all(kept->terms());
        fingerprint = hasher.digest();
    }
    if (plan.epochs->can_sort()) return make_mixed_buckets(plan.epochs, kept, fingerprint);
    const auto make = [kept](const std::shared_ptr<const Plan>& of,
                             const std::vector<uint32_t>* samples) {
        return std::make_unique<BucketSequence>(of, kept ? &*kept : nullptr, samples);
    };
    return mixed_sequence_of(plan, kind_of("sab_bucket_sampler_new"), fingerprint, make, false);
}

}  // namespace sab

extern "C" {

sab_status sab_bucket_sampler_new(const sab_plan* plan, const sab_sampler_options* options,
                                  sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(plan, "plan");
        const sab::SamplerOptions given(sab::read_options(options), true);
        const auto balance = sab::read_balance(given, plan->impl->names());
        return sab::new_cursor(sab::make_bucket_sequence(*plan, balance ? &*balance : nullptr),
                               given);
    });
}

}  // extern "C"
