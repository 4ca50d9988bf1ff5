/// The native order, version 1. ARCHITECTURE.md tells it as a whole.
///
/// Every batch of an epoch has an id. Ids are sorted by cost, so that `group` neighbours cost nearly the same; inside a band of nearly equal
/// cost the ids are permuted, so that a group mixes buckets; the groups are permuted. The batches that fill no last group are taken from those
/// with the most samples, which can be split between ranks, and stand at the end. The samples of a batch are a stretch of the bucket's
/// permuted places.
#include <algorithm>

#include "sampler/permutation.h"
#include "sampler/sequence.h"

namespace sab {
namespace {

/// Equal batches of one bucket: its full ones, or its tail.
struct Kind {
    std::size_t bucket;
    uint64_t first;  ///< permuted place of its first sample
    uint64_t size;   ///< samples a batch
    uint64_t batches;
    double cost;
};

/// A stretch of ids: batches `first`, `first` + 1, ... of a kind.
struct Run {
    std::size_t kind;
    uint64_t first;
    uint64_t end_id;
};

struct Band {
    uint64_t end_id;
    Permutation batches;
};

class BucketSequence : public Sequence {
public:
    explicit BucketSequence(std::shared_ptr<const Plan> plan) : reader_(std::move(plan)) {
        const auto buckets = reader_.plan().buckets();
        const auto tail_policy = reader_.plan().facts().tail;
        for (std::size_t b = 0; b < buckets.size(); ++b) {
            const Bucket& bucket = buckets[b];
            if (bucket.batches == 0) continue;
            const uint64_t full = tail_policy == SAB_TAIL_WRAP ? bucket.batches : bucket.samples() / bucket.batch_size;
            const uint64_t tail = bucket.samples() % bucket.batch_size;
            if (full > 0) kinds_.push_back({b, 0, bucket.batch_size, full, bucket.cost});
            if (bucket.batches > full) {
                // With full batches beside it, a tail's cost is its share of theirs; alone, it is the largest batch itself.
                const double cost = full > 0 ? bucket.cost * static_cast<double>(tail) / static_cast<double>(bucket.batch_size) : bucket.cost;
                kinds_.push_back({b, full * bucket.batch_size, tail, 1, cost});
            }
        }
        std::ranges::stable_sort(kinds_, std::ranges::greater{}, &Kind::cost);
        arrange({});
    }

    Order order() const override { return Order::native; }
    uint64_t fingerprint() const override { return reader_.plan().fingerprint(); }
    uint64_t skipped() const override { return reader_.plan().facts().skipped; }
    uint64_t batches() const override { return reader_.plan().facts().batches; }

    void arrange(const Arrangement& arrangement) override {
        if (runs_.empty() || arrangement.group != arrangement_.group || arrangement.worst_first != arrangement_.worst_first) lay_out(arrangement);
        arrangement_ = arrangement;
        found_position_ = nowhere;
        const auto key = [&](Purpose purpose, uint64_t which) { return permutation_key(arrangement.seed, arrangement.epoch, purpose, which); };
        groups_ = Permutation(grouped_ / arrangement.group - worst_groups_, key(Purpose::steps, 0));
        uint64_t first = worst_groups_ * arrangement.group;
        for (std::size_t b = 0; b < bands_.size(); ++b) {
            bands_[b].batches = Permutation(bands_[b].end_id - first, key(Purpose::batches, b));
            first = bands_[b].end_id;
        }
    }

    const Plan* plan() const override { return &reader_.plan(); }
    std::size_t bucket(uint64_t position) const override { return kinds_[find(position).kind].bucket; }
    uint64_t samples(uint64_t position) const override { return kinds_[find(position).kind].size; }
    double cost(uint64_t position) const override { return kinds_[find(position).kind].cost; }

    double total(uint64_t position) const override {
        const auto [kind, batch] = find(position);
        const Bucket& bucket = reader_.plan().buckets()[kinds_[kind].bucket];
        if (bucket.level_end - bucket.level_begin == 1) return static_cast<double>(kinds_[kind].size) * bucket.longest;
        return reader_.total(bucket, places(kinds_[kind], batch, 0, kinds_[kind].size));
    }

    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override {
        const auto [kind, which] = find(position);
        reader_.read(kinds_[kind].bucket, places(kinds_[kind], which, first, count), batch);
    }

private:
    struct Found {
        std::size_t kind;
        uint64_t batch;
    };

    void lay_out(const Arrangement& arrangement) {
        // The batches over a multiple of the group are taken from the kinds with the most samples.
        uint64_t over = batches() % arrangement.group;
        grouped_ = batches() - over;
        std::vector<std::size_t> by_size(kinds_.size());
        for (std::size_t k = 0; k < kinds_.size(); ++k) by_size[k] = k;
        std::ranges::stable_sort(by_size, std::ranges::greater{}, [&](std::size_t k) { return kinds_[k].size; });
        std::vector<uint64_t> taken(kinds_.size());
        std::vector<std::size_t> last;
        for (std::size_t i = 0; i < by_size.size() && over > 0; ++i) {
            const std::size_t k = by_size[i];
            taken[k] = std::min(over, kinds_[k].batches);
            over -= taken[k];
            last.push_back(k);
        }
        runs_.clear();
        uint64_t id = 0;
        for (std::size_t k = 0; k < kinds_.size(); ++k)
            if (kinds_[k].batches > taken[k]) runs_.push_back({k, 0, id += kinds_[k].batches - taken[k]});
        std::ranges::sort(last);  // by cost again
        for (const std::size_t k : last) runs_.push_back({k, kinds_[k].batches - taken[k], id += taken[k]});

        worst_groups_ = std::min(grouped_ / arrangement.group, (arrangement.worst_first + arrangement.group - 1) / arrangement.group);
        // A band ends before the batch that costs less than nine tenths of its first.
        bands_.clear();
        const uint64_t first = worst_groups_ * arrangement.group;
        double top = 0;
        for (const Run& run : runs_) {
            if (run.end_id > grouped_) break;
            if (run.end_id <= first) continue;
            const double cost = kinds_[run.kind].cost;
            if (bands_.empty() || cost < 0.9 * top) {
                bands_.push_back({run.end_id, Permutation()});
                top = cost;
            }
            bands_.back().end_id = run.end_id;
        }
    }

    Found find(uint64_t position) const {
        if (position == found_position_) return found_;
        uint64_t id = position;
        if (position < grouped_) {
            const uint64_t group = position / arrangement_.group;
            if (group >= worst_groups_) {
                id = (worst_groups_ + groups_(group - worst_groups_)) * arrangement_.group + position % arrangement_.group;
                const auto band = std::ranges::upper_bound(bands_, id, {}, &Band::end_id);
                const uint64_t first = band->end_id - band->batches.count();
                id = first + band->batches(id - first);
            }
        }
        const auto run = std::ranges::upper_bound(runs_, id, {}, &Run::end_id);
        const uint64_t first = run == runs_.begin() ? 0 : std::prev(run)->end_id;
        found_position_ = position;
        return found_ = {run->kind, run->first + (id - first)};
    }

    /// Places inside the bucket of a batch's samples.
    std::span<const uint32_t> places(const Kind& kind, uint64_t batch, uint64_t first, uint64_t count) const {
        const uint64_t samples = reader_.plan().buckets()[kind.bucket].samples();
        const Permutation permutation(samples, permutation_key(arrangement_.seed, arrangement_.epoch, Purpose::samples, kind.bucket));
        if (places_.size() < count) places_.resize(count);
        const std::span<uint32_t> out(places_.data(), count);
        const uint64_t begin = kind.first + batch * kind.size + first;
        // Only a batch of SAB_TAIL_WRAP reaches past the end, where it goes on with the bucket's first.
        for (uint64_t done = 0; done < count;) {
            const uint64_t from = (begin + done) % samples;
            const uint64_t stretch = std::min(count - done, samples - from);
            permutation.fill(from, out.subspan(done, stretch));
            done += stretch;
        }
        return out;
    }

    PlanReader reader_;
    std::vector<Kind> kinds_;  ///< by cost, highest first
    Arrangement arrangement_;
    uint64_t grouped_ = 0;       ///< batches in whole groups
    uint64_t worst_groups_ = 0;  ///< groups at the beginning that stay in the order of cost
    std::vector<Run> runs_;
    std::vector<Band> bands_;
    Permutation groups_;
    mutable std::vector<uint32_t> places_;
    static constexpr uint64_t nowhere = ~uint64_t{0};
    mutable uint64_t found_position_ = nowhere;  ///< of the last find(): a batch is asked about several times
    mutable Found found_{};
};

}  // namespace

std::unique_ptr<Sequence> make_bucket_sequence(std::shared_ptr<const Plan> plan) { return std::make_unique<BucketSequence>(std::move(plan)); }

}  // namespace sab
