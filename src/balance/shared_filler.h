#pragma once
/// Micro-batches that are filled one after the other.

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "balance/shared_branches.h"
#include "balance/shared_items.h"

namespace sab {

/// Trees, of which the largest is looked for that is not above a size. Those of which a part is
/// taken are few.
class TreesBySize {
public:
    using Sized = std::pair<double, uint32_t>;  ///< size, tree

    void reset(std::span<const double> sizes);
    bool is_empty() const { return count_ == 0; }
    /// Must not be empty.
    Sized largest() { return last(all_.size(), cut_.end()); }
    /// A tree of `none` when all are larger.
    Sized largest_up_to(double size);
    void erase(const Sized& tree);
    /// One that was erased.
    void insert(const Sized& tree);

private:
    using Cut = std::set<Sized>;
    Sized last(std::size_t end, Cut::const_iterator cut_end);
    uint32_t last_before(std::size_t end);

    std::vector<Sized> all_;        ///< ascending
    std::vector<uint32_t> places_;  ///< of each tree, in `all_`; `none`: erased there
    std::vector<uint32_t> ends_;    ///< of each place, behind the last before it that is not erased
    Cut cut_;
    std::size_t count_ = 0;
};

/// When a part of a tree is taken.
struct Cutting {
    double waste;  ///< least share of a micro-batch that it uses
    double share;  ///< of SharedBranches::choose()
};

/// Keeps its scratch memory between calls.
class SharedFiller {
public:
    explicit SharedFiller(const SharedItems& items);

    /// Fills `part_of` with the number of a micro-batch for each leaf. Each micro-batch takes the
    /// largest tree, or rest of a tree, that fits; and then a part of one where that uses enough
    /// of its room, without what is computed again. Returns the number of micro-batches; 0
    /// if there would be more than `most`. `limits`: of a micro-batch, for each kind.
    std::size_t fill(const Load& limits, const Cutting& cutting, std::size_t most,
                     std::span<uint32_t> part_of);

private:
    double size_of(const Load& load) const;
    double room_of(const Load& load) const;
    bool fits(const Load& load) const;
    bool fill_part(uint32_t part);
    bool take_whole(uint32_t tree, Load& load, uint32_t part);
    bool take_some(Load& load, bool is_empty, uint32_t part);
    void take_chosen(uint32_t tree, Load& load, uint32_t part);
    void write_chosen(uint32_t part) {
        rests_.for_each_chosen([&](uint32_t leaf) {
            part_of_[leaf] = part;
            --left_;
        });
        rests_.take();
    }

    const SharedItems& items_;
    SharedBranches all_, rests_;     ///< `rests_`: what is left
    std::vector<uint32_t> by_path_;  ///< trees to cut, those with the least in common first
    std::vector<uint32_t> open_;     ///< the same, without most of those that are taken
    std::vector<double> sizes_;      ///< of each tree, what is left
    TreesBySize by_size_;
    Load limits_{};
    Cutting cutting_{};
    std::span<uint32_t> part_of_;
    std::size_t left_ = 0;  ///< leaves
};

}  // namespace sab
