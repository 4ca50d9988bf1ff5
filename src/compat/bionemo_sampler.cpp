#include "compat/bionemo_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/callback.h"
#include "base/log.h"
#include "sampler/capabilities.h"

namespace sab {

BionemoSampler::BionemoSampler(std::shared_ptr<const Plan> plan, const sab_bionemo_options& options)
    : reader_(std::move(plan)),
      options_(options),
      size_ctx_(options.size_ctx, options.release),
      generator_(static_cast<uint32_t>(options.seed)) {
    const PlanFacts& facts = reader_.plan().facts();
    if (facts.bucket_rule != SAB_BUCKETS_BOUNDARIES)
        refuse_argument("plan", no_value,
                        "must be made with SAB_BUCKETS_BOUNDARIES for the torch order");
    if (facts.tail != SAB_TAIL_KEEP && facts.tail != SAB_TAIL_DROP)
        refuse_argument("plan", no_value,
                        "must be made with SAB_TAIL_KEEP or SAB_TAIL_DROP for the torch order");
    check(options.shuffle >= SAB_BIONEMO_SHUFFLE_ALL &&
              options.shuffle <= SAB_BIONEMO_SHUFFLE_BUCKETS,
          "options.shuffle", options.shuffle,
          "must be one of SAB_BIONEMO_SHUFFLE_ALL (0) to SAB_BIONEMO_SHUFFLE_BUCKETS (2)");
    check(is_greedy() || options.limit == 0, "options.limit", options.limit,
          "goes with options.sizes or options.size only");
    check(options.limit >= 0 && std::isfinite(options.limit), "options.limit", options.limit,
          "must be finite and at least 0");
    if (options.sizes != nullptr) {
        check(options.size == nullptr, "options.size", "given",
              "must be NULL beside options.sizes");
        sizes_ = options.sizes->impl.only();
        check(sizes_->count() == facts.samples, "options.sizes.count", sizes_->count(),
              "must be that of the plan, ", facts.samples);
    }
    mean_ = {sums_of(reader_.plan()), static_cast<double>(facts.batches)};
    const auto buckets = reader_.plan().buckets();
    for (std::size_t b = 0; b < buckets.size(); ++b) {
        BucketQueue queue;
        queue.bucket = b;
        const auto begin = static_cast<uint32_t>(buckets[b].begin);
        queue.places.resize(buckets[b].samples());
        std::iota(queue.places.begin(), queue.places.end(), begin);
        const auto samples = reader_.plan().order().subspan(begin, queue.places.size());
        reader_.plan().verify(samples);
        // a mapped file might change while they are compared
        const std::vector<uint32_t> order(samples.begin(), samples.end());
        std::ranges::sort(queue.places, {}, [&](uint32_t place) { return order[place - begin]; });
        queues_.push_back(std::move(queue));
    }
}

BionemoSampler& BionemoSampler::of(Sampler& sampler) {
    need_kind(sampler, "sab_bionemo_sampler_new");
    return static_cast<BionemoSampler&>(sampler);
}

void BionemoSampler::go_to_epoch(uint64_t epoch) {
    epoch_ = epoch;
    position_ = 0;
    begun_ = false;
    stage_ = Stage::choosing;
    open_.clear();
    open_total_ = 0;
    too_large_.clear();
}

std::optional<uint64_t> BionemoSampler::known_batch_count() const {
    if (is_greedy()) return std::nullopt;
    return reader_.plan().facts().batches;
}

void BionemoSampler::begin_pass() {
    // Drawn first and taken over together: a pass that could not begin has drawn nothing.
    MersenneTwister generator = generator_;
    std::vector<std::vector<uint32_t>> drawn(
        options_.shuffle == SAB_BIONEMO_SHUFFLE_ALL ? queues_.size() : 0);
    for (std::size_t i = 0; i < drawn.size(); ++i) {
        // Applied to the order that the pass before left.
        drawn[i] = torch_permutation(generator, queues_[i].places.size());
        for (uint32_t& place : drawn[i]) place = queues_[i].places[place];
    }
    for (std::size_t i = 0; i < drawn.size(); ++i) queues_[i].places.swap(drawn[i]);
    generator_ = generator;
    total_remaining_ = 0;
    for (BucketQueue& queue : queues_) {
        queue.next = 0;
        queue.remaining = queue.places.size();
        queue.has_size = false;
        total_remaining_ += queue.remaining;
    }
    begun_ = true;
}

std::size_t BionemoSampler::choose() {
    if (options_.shuffle == SAB_BIONEMO_SHUFFLE_NONE)
        return static_cast<std::size_t>(
            std::ranges::find_if(queues_,
                                 [](const BucketQueue& queue) { return queue.remaining > 0; }) -
            queues_.begin());
    // torch.multinomial of one draw: the largest p / q, q exponential. MKL draws q from a stream of
    // its own (MCG31m1: L'Ecuyer 1999), seeded with one word of the generator.
    constexpr uint64_t modulus = 0x7FFFFFFF, multiplier = 1132489760;
    uint64_t state = generator_() % modulus;
    if (state == 0) state = 1;
    std::size_t best = 0;
    float most = -1;
    for (std::size_t b = 0; b < queues_.size(); ++b) {
        const auto uniform = static_cast<double>(state) / static_cast<double>(modulus);
        const float exponential =
            static_cast<float>(-std::log(uniform)) + std::numeric_limits<float>::min();
        const float share =
            static_cast<float>(queues_[b].remaining) / static_cast<float>(total_remaining_);
        if (share / exponential > most) {
            most = share / exponential;
            best = b;
        }
        state = state * multiplier % modulus;
    }
    return best;
}

bool BionemoSampler::form(BucketQueue& queue) {
    const uint64_t batch_size = reader_.plan().buckets()[queue.bucket].batch_size;
    const uint64_t left = queue.places.size() - queue.next;
    const uint64_t count = left < batch_size && reader_.plan().facts().tail == SAB_TAIL_DROP
                               ? 0
                               : std::min(left, batch_size);
    const auto first = queue.places.begin() + static_cast<std::ptrdiff_t>(queue.next);
    open_.assign(first, first + static_cast<std::ptrdiff_t>(count));
    queue.next += count;
    return count > 0;
}

double BionemoSampler::size_of(int64_t index) const {
    double size = unset_number;
    if (sizes_) {
        sizes_->read(static_cast<std::size_t>(index), {&size, 1});
        return size;
    }
    if (const int32_t code = called_back(
            "the size callback", [&] { return options_.size(size_ctx_.get(), index, &size); });
        code != 0)
        throw Error(SAB_E_CALLBACK,
                    text("the size callback failed with code ", code, " at index ", index), code);
    if (std::isnan(size)) refuse_argument(named("sizes[", index, "]"), "nan", "must be a number");
    return size;
}

bool BionemoSampler::form_greedily(BucketQueue& queue) {
    const uint32_t* order = reader_.plan().order().data();
    while (queue.next < queue.places.size()) {
        const uint32_t index = order[queue.places[queue.next]];
        reader_.plan().check_sample(index);
        if (!queue.has_size) {
            queue.size = size_of(index);
            queue.has_size = true;
        }
        if (queue.size <= options_.limit) {
            if (!open_.empty() && queue.size + open_total_ > options_.limit) return true;
            open_.push_back(queue.places[queue.next]);
            open_total_ += queue.size;
        } else {
            too_large_.push_back(index);
            log(SAB_LOG_WARNING, "skipped sample ", index, ": size ", queue.size,
                " is over limit = ", options_.limit, " alone");
        }
        ++queue.next;
        queue.has_size = false;
    }
    return !open_.empty();
}

bool BionemoSampler::take(EpochBatch& placed) {
    if (!begun_) begin_pass();
    while (total_remaining_ > 0) {
        // Where a size callback fails, or memory runs out, the next call goes on with the batch
        // under way.
        if (stage_ == Stage::choosing) {
            chosen_ = choose();
            open_.clear();
            open_total_ = 0;
            stage_ = Stage::forming;
        }
        BucketQueue& queue = queues_[chosen_];
        if (stage_ == Stage::forming && !(is_greedy() ? form_greedily(queue) : form(queue))) {
            total_remaining_ -= queue.remaining;
            queue.remaining = 0;
            stage_ = Stage::choosing;
            continue;
        }
        stage_ = Stage::formed;
        reader_.read(queue.bucket, open_, placed.batch);
        stage_ = Stage::choosing;
        queue.remaining -= open_.size();
        total_remaining_ -= open_.size();
        placed.epoch = epoch_;
        placed.position = placed.step = position_++;
        if (is_greedy())
            so_far_.weigh(placed);
        else
            placed.weigh(mean_);
        return true;
    }
    return false;
}

}  // namespace sab
