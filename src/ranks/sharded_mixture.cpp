#include "ranks/sharded_mixture.h"

#include <algorithm>
#include <queue>

#include "base/hasher.h"
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

/// The batches that each rank takes in an epoch. A rank has as many as any other, of which some may
/// be empty where it has fewer samples.
class RankBatches {
public:
    struct Piece {
        std::size_t bucket;
        uint64_t first, count;  ///< of the samples that the rank has in the bucket
    };

    RankBatches(const Plan& plan, std::span<const uint32_t> samples, const ShardedMixture& of)
        : ranks_(of.ranks()) {
        const std::span<const Bucket> buckets = plan.buckets();
        std::vector<std::vector<uint32_t>> by_rank(ranks_);
        for (const Bucket& bucket : buckets) {
            for (uint64_t place = bucket.begin; place < bucket.end; ++place)
                by_rank[of.rank_of(samples[plan.order()[place]])].push_back(
                    static_cast<uint32_t>(place));
            for (std::vector<uint32_t>& each : by_rank) {
                begin_.push_back(places_.size());
                places_.insert(places_.end(), each.begin(), each.end());
                each.clear();
            }
        }
        begin_.push_back(places_.size());
        std::vector<std::vector<uint64_t>> batches(ranks_);  // of a rank, by bucket
        for (std::size_t r = 0; r < ranks_; ++r) {
            uint64_t all = 0;
            for (std::size_t b = 0; b < buckets.size(); ++b) {
                const uint64_t size = buckets[b].batch_size;
                batches[r].push_back((count(b, r) + size - 1) / size);
                all += batches[r].back();
            }
            steps_ = std::max(steps_, all);
        }
        for (std::size_t r = 0; r < ranks_; ++r) {
            fill_steps(buckets, r, batches[r]);
            for (std::size_t b = 0; b < buckets.size(); ++b) {
                const uint64_t all = count(b, r), pieces = batches[r][b];
                for (uint64_t i = 0; i < pieces; ++i)
                    pieces_.push_back(
                        {b, i * all / pieces, (i + 1) * all / pieces - i * all / pieces});
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
        room.resize(piece.count);
        if (piece.count == 0) return room;
        const uint64_t rank = batch / steps_;
        Permutation(count(piece.bucket, rank), permutation_key(of.seed, of.epoch, Purpose::samples,
                                                               piece.bucket * ranks_ + rank))
            .fill(piece.first, room);
        for (uint32_t& place : room) place = places_[begin_[piece.bucket * ranks_ + rank] + place];
        return room;
    }

private:
    uint64_t count(std::size_t bucket, uint64_t rank) const {
        const std::size_t at = bucket * ranks_ + rank;
        return begin_[at + 1] - begin_[at];
    }

    /// Divides the costliest batches of a rank until it has one for each step, or one for each
    /// sample.
    void fill_steps(std::span<const Bucket> buckets, uint64_t rank,
                    std::vector<uint64_t>& batches) const {
        uint64_t all = 0;
        std::priority_queue<std::pair<double, std::size_t>> costliest;
        const auto add = [&](std::size_t b) {
            if (batches[b] == count(b, rank)) return;  // one sample each
            costliest.emplace(buckets[b].cost * static_cast<double>(count(b, rank)) /
                                  static_cast<double>(buckets[b].batch_size * batches[b]),
                              b);
        };
        for (std::size_t b = 0; b < buckets.size(); ++b) {
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

    uint64_t ranks_, steps_ = 0;
    std::vector<uint32_t> places_{};    ///< of the samples, by bucket and rank
    std::vector<std::size_t> begin_{};  ///< in these, by bucket and rank
    std::vector<Piece> pieces_{};       ///< of all ranks, each with as many
};

/// The batches of an epoch. Each rank takes those of its own samples.
class ShardedBatches : public Sequence {
public:
    ShardedBatches(std::shared_ptr<const ShardedMixture> mixture, MixedPlans::OfEpoch of_epoch)
        : mixture_(std::move(mixture)),
          samples_(std::move(of_epoch.samples)),
          reader_(std::move(of_epoch.plan)),
          batches_(std::make_shared<const RankBatches>(reader_.plan(), *samples_, *mixture_)) {}

    std::unique_ptr<Sequence> copy() const override {
        return std::make_unique<ShardedBatches>(*this);
    }
    SamplerKind kind() const override { return kind_of("sab_sharded_sampler_new"); }
    uint64_t fingerprint() const override { return mixture_->fingerprint(); }
    std::size_t skipped(std::span<int64_t> room) const override {
        std::vector<int64_t> all(reader_.plan().facts().skipped), own;
        reader_.plan().skipped(all);
        for (const int64_t number : all) {
            const uint32_t sample = (*samples_)[static_cast<std::size_t>(number)];
            if (mixture_->rank_of(sample) == mixture_->rank())
                own.push_back(int64_t{sample} - mixture_->first(mixture_->rank()));
        }
        return copy_indices(std::span<const int64_t>(own), room);
    }
    uint64_t batches() const override { return batches_->steps(); }
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
        if (batches_->piece(batch).count == 0) return {};
        return reader_.total(batches_->piece(batch).bucket,
                             batches_->places(batch, order_.epoch_options, places_));
    }
    BatchSums sums() const override {
        BatchSums sums;
        sums.add(sums_of(reader_.plan()), 1 / static_cast<double>(shards()));
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
        const Bucket& bucket = reader_.plan().buckets()[piece.bucket];
        return bucket.cost * static_cast<double>(piece.count) /
               static_cast<double>(bucket.batch_size);
    }
    void fill_part(std::size_t of, uint64_t first, uint64_t count, Batch& batch) const {
        const std::span<const uint32_t> places =
            batches_->places(of, order_.epoch_options, places_);
        if (count == 0)
            batch.fill(0, [](uint64_t) { return Sample{}; });
        else
            reader_.read(batches_->piece(of).bucket, places.subspan(first, count), batch);
        for (int64_t& index : std::span(batch.buffer).first(count))
            index = (*samples_)[static_cast<std::size_t>(index)];
    }

    std::shared_ptr<const ShardedMixture> mixture_;
    std::shared_ptr<const std::vector<uint32_t>> samples_;  ///< that the plan has numbers of
    PlanReader reader_;
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
            const uint32_t sample = (*samples_)[reader_.plan().order()[places[i]]];
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
    return {nullptr, std::make_unique<ShardedBatches>(shared_from_this(), plans_->make(epoch))};
}

}  // namespace sab
