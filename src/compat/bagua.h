#pragma once
/// Samples sorted by complexity and dealt out in shuffled chunks, as Bagua's contrib package does
/// it, seed for seed, without torch.

#include <optional>

#include "base/caller_context.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/mersenne_twister.h"
#include "sab/compat.h"
#include "sampler/sequence.h"
#include "sizes/sizes.h"

namespace sab {

/// The batches of one rank after another, as they are added.
struct Batches {
    /// Of `indices`.
    struct Range {
        uint64_t first;
        uint64_t count;
    };
    uint64_t samples;  ///< indices are below
    std::vector<uint32_t> indices;
    std::vector<Range> ranges;
    std::optional<Error> refusal;  ///< of a batch that broke a rule

    void add(const int64_t* batch, std::size_t count);
};

/// Position p is batch p / group of rank p % group, and all ranks have as many, so a step is whole.
class BaguaSequence : public Sequence {
public:
    BaguaSequence(const Sizes& complexity, const sab_bagua_options& given);
    /// Makes no batches, so it does without the caller's context.
    BaguaSequence(const BaguaSequence& other);
    void own() noexcept override { batches_ctx_.own(); }
    std::unique_ptr<Sequence> copy() const override {
        return std::make_unique<BaguaSequence>(*this);
    }
    SamplerKind kind() const override { return kind_of("sab_bagua_sampler_new"); }
    bool has_equal_epochs() const override { return false; }
    uint64_t fingerprint() const override { return fingerprint_; }
    std::size_t skipped(std::span<int64_t>) const override { return 0; }
    uint64_t batches() const override { return now_->batches; }
    std::unique_ptr<Sequence::EpochOrder> make_epoch_order(
        const EpochOptions& epoch_options) const override;
    void exchange(Sequence::EpochOrder& epoch_order) noexcept override {
        std::swap(now_, static_cast<EpochOrderOf<SharedDivision>&>(epoch_order).value);
    }
    uint64_t samples(uint64_t position) const override { return range(position).count; }
    double cost(uint64_t position) const override { return total(position)[0]; }
    PerColumn total(uint64_t position) const override;
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override;

private:
    /// The samples of an epoch as they are dealt out.
    struct Division {
        std::optional<EpochOptions> epoch_options;  ///< none: nothing is dealt out
        uint64_t batches = 0;
        uint64_t per_rank = 0;  ///< samples of a rank
        /// rank by rank; of batches that were made, in the order they were made in
        std::vector<uint32_t> samples;
        /// by position, of a sequence whose batches are made
        std::vector<Batches::Range> made;
    };
    using SharedDivision = std::shared_ptr<const Division>;
    std::vector<uint32_t> sorted(MersenneTwister& generator) const;
    void make_batches(Division& division) const;
    void make_batches(std::span<const int64_t> indices, sab_batches& batches) const;
    Batches::Range range(uint64_t position) const;

    /// Whether batches have a variable size.
    bool makes_batches() const { return options_.batch_size == 0; }

    sab_bagua_options options_;
    CallerContext batches_ctx_;
    std::shared_ptr<const std::vector<double>> complexity_;
    uint64_t noise_ = 1;  ///< is drawn below
    uint64_t fingerprint_ = 0;
    SharedDivision now_ = std::make_shared<const Division>();
};

}  // namespace sab

struct sab_batches {
    sab::Tag<sab_batches> tag{};
    sab::Batches impl;
};
