#pragma once
/// The batches of a mixture: those of a sequence that is made for the samples of each epoch, in an
/// order that keeps every source near its due.

#include <functional>
#include <memory>
#include <vector>

#include "plan/mixed_plans.h"
#include "sampler/even_order.h"
#include "sampler/sequence.h"

namespace sab {

/// A sequence of numbers of `samples`; where these are null, of samples.
struct EpochSequence {
    std::shared_ptr<const std::vector<uint32_t>> samples;
    std::unique_ptr<Sequence> sequence;
};

class MixedSequence : public Sequence {
public:
    using Make = std::function<EpochSequence(uint64_t epoch)>;

    /// `keeps_order`: the order is that of the sequences that `make` makes.
    MixedSequence(std::shared_ptr<const EpochChoice> choice, SamplerKind kind, uint64_t fingerprint,
                  Make make, bool keeps_order = false)
        : choice_(std::move(choice)),
          kind_(kind),
          fingerprint_(fingerprint),
          make_(std::move(make)),
          keeps_order_(keeps_order) {}
    MixedSequence(const MixedSequence& other);

    std::unique_ptr<Sequence> copy() const override {
        return std::make_unique<MixedSequence>(*this);
    }
    Rule rule() const override { return keeps_order_ ? present_.sequence->rule() : Rule::dues; }
    const EpochChoice* choice() const override { return choice_.get(); }
    const Sequence& of_epoch() const override { return *present_.sequence; }
    SamplerKind kind() const override { return kind_; }
    uint64_t fingerprint() const override { return fingerprint_; }
    std::size_t skipped(std::span<int64_t> room) const override;
    uint64_t batches() const override {
        return present_.order ? present_.order->size() : present_.sequence->batches();
    }
    std::unique_ptr<EpochOrder> make_epoch_order(const EpochOptions& epoch_options) const override;
    void exchange(EpochOrder& epoch_order) noexcept override;
    const Plan* plan() const override { return present_.sequence->plan(); }
    uint64_t rotated_rank(uint64_t step, uint64_t rank, uint64_t world) const override {
        return keeps_order_ ? present_.sequence->rotated_rank(step, rank, world) : rank;
    }
    std::size_t columns() const override { return present_.sequence->columns(); }

    bool has_others() const override { return present_.sequence->has_others(); }
    uint64_t shards() const override { return present_.sequence->shards(); }
    void fill_shard(uint64_t position, uint64_t shard, Batch& batch) const override;
    uint64_t samples_of_ranks(uint64_t position) const override {
        const Piece* const piece = piece_at(position);
        return piece ? piece->of.count : present_.sequence->samples_of_ranks(place(position));
    }
    uint64_t samples(uint64_t position) const override {
        const Piece* const piece = piece_at(position);
        return piece ? piece->of.count : present_.sequence->samples(place(position));
    }
    double cost(uint64_t position) const override {
        const Piece* const piece = piece_at(position);
        return piece ? piece->cost : present_.sequence->cost(place(position));
    }
    PerColumn total(uint64_t position) const override {
        const Piece* const piece = piece_at(position);
        return piece ? piece->total : present_.sequence->total(place(position));
    }
    BatchSums sums() const override { return present_.sequence->sums(); }
    BatchSums sums_at(uint64_t position) const override {
        return piece_at(position) ? BatchOrder::sums_at(position)
                                  : present_.sequence->sums_at(place(position));
    }
    std::size_t bucket(uint64_t position) const override {
        return present_.sequence->bucket(place(position));
    }
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override;

private:
    struct Piece {
        BatchPiece of;
        double cost;
        PerColumn total;
    };
    /// What an epoch has.
    struct Present {
        std::shared_ptr<const std::vector<uint32_t>> samples;
        std::unique_ptr<Sequence> sequence;
        /// ids: of batches of the sequence, then of pieces. null: that of the sequence
        std::shared_ptr<const std::vector<uint32_t>> order;
        std::shared_ptr<const std::vector<Piece>> pieces;
        uint64_t epoch = 0;

        /// From the numbers that the sequence gives to samples.
        void rename(std::span<int64_t> numbers) const;
    };

    /// Null if the batch there is not divided.
    const Piece* piece_at(uint64_t position) const;
    /// Of the batch, in the sequence.
    uint64_t place(uint64_t position) const;
    void put_in_order(Present& of, const EpochOptions& epoch_options) const;

    std::shared_ptr<const EpochChoice> choice_;
    SamplerKind kind_;
    uint64_t fingerprint_;
    Make make_;
    bool keeps_order_;
    Present present_;
};

/// The sequence that `make` makes of the plan of each epoch of a mixture and of the samples that it
/// numbers. `keeps_order`: as above.
template <class Make>
std::unique_ptr<Sequence> mixed_sequence_of(const sab_plan& plan, SamplerKind kind,
                                            uint64_t fingerprint, const Make& make,
                                            bool keeps_order) {
    const auto of_epoch = [epochs = plan.epochs, make](uint64_t epoch) {
        MixedPlans::OfEpoch made = epochs->make(epoch);
        return EpochSequence{made.samples, make(std::move(made.plan), made.samples.get())};
    };
    return std::make_unique<MixedSequence>(plan.epochs->choice(), kind, fingerprint, of_epoch,
                                           keeps_order);
}

/// The sequence that `make` makes of a plan, and null; of a mixture, of the plan of each epoch and
/// of the samples that it numbers. `keeps_order`: as above.
template <class Make>
std::unique_ptr<Sequence> sequence_of(const sab_plan& plan, SamplerKind kind, Make make,
                                      bool keeps_order) {
    if (!has_mixtures || plan.epochs == nullptr) {
        plan.impl->need_order("samplers");
        return make(plan.impl, static_cast<const std::vector<uint32_t>*>(nullptr));
    }
    return mixed_sequence_of(plan, kind, plan.fingerprint(), make, keeps_order);
}

}  // namespace sab
