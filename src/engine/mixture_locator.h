#pragma once
/// Where samples of a mixture are in its epoch.

#include "engine/bucket_locator.h"
#include "plan/counted_turns.h"

namespace sab {

/// In each bucket the samples of each source are permuted, and dealt to the batches like cards, one
/// source after the other. So each batch has the share of each source, less than one sample more or
/// less. The batches of each bucket are spread evenly over the epoch.
class MixtureLocator : public BucketLocator {
public:
    MixtureLocator(const std::shared_ptr<const Plan>& plan,
                   std::shared_ptr<const CountedTurns> turns, const SamplerOptions& options);

protected:
    /// Gives the number of the entry.
    Found find(uint64_t source, const double* sizes, uint64_t number) const override;
    /// Places are numbers of turns: those of an entry after those of the entry before.
    void find_places(std::span<const uint64_t> found, std::span<const uint64_t> numbers,
                     std::vector<uint64_t>& places, uint64_t* turns) const override;
    void find_batches(std::span<const uint64_t> places, Appearances* found) const override;
    void find_positions(std::span<uint64_t> ids) const override { order_.even_positions_of(ids); }

private:
    /// Turns of a source in a bucket.
    struct Group {
        std::size_t bucket;  ///< or the number of buckets: they are in none
        uint64_t first;      ///< turns of the sources before it in the bucket
        Permutation permutation;
    };
    /// Turns in a row, of the same group.
    struct Piece {
        std::size_t group;
        uint64_t offset;  ///< in the group
    };
    /// Distances in a batch of rows: of a full one, and of the rest of the bucket.
    struct Strides {
        uint64_t full, rest;
    };
    /// Turns in a row of an entry, of the same bucket.
    struct Part {
        std::size_t bucket;  ///< or the number of buckets: they are in none
        std::size_t entry;
        uint64_t begin, count;
        Piece piece{};
    };
    std::vector<Part> parts() const;
    void exchange(std::span<const Part> by_entry);
    void make_groups(std::span<Part> parts);
    uint64_t spread_place(std::size_t bucket, uint64_t number) const;

    std::shared_ptr<const CountedTurns> turns_;
    std::vector<uint64_t> first_turns_{};       ///< of each entry
    std::vector<std::size_t> first_entries_{};  ///< of each source; one more: all
    /// of each entry that lies in several buckets: which of its turns has the place of a turn
    std::vector<Permutation> exchanges_{};
    std::vector<uint32_t> exchange_of_{};  ///< of each entry, or none
    static constexpr uint32_t none = ~uint32_t{0};
    std::vector<uint64_t> piece_begins_{};
    std::vector<Piece> pieces_{};
    std::vector<Group> groups_{};
    std::vector<Strides> strides_{};  ///< of the buckets
};

/// Refuses sources where the plan is of no epoch of a mixture, and none where it is of one.
void check_sources(bool is_of_mixture, const uint32_t* sources, std::size_t count);

}  // namespace sab
