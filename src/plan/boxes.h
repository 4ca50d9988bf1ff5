#pragma once
/// Buckets of samples with several sizes: boxes of whole batches.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/progress.h"
#include "plan/automatic.h"
#include "sizes/columns.h"

namespace sab {

/// What is divided into boxes. The samples of a cell are padded alike.
struct Cells {
    std::size_t columns = 0;
    std::vector<double> lengths;   ///< padded lengths of each cell, one a column
    std::vector<uint64_t> counts;  ///< samples of each cell
    double total = 0;              ///< of all sizes, which may be shorter than the lengths
    std::size_t size() const { return counts.size(); }
    std::span<const double> of(std::size_t cell) const {
        return {lengths.data() + cell * columns, columns};
    }
};

/// Some of a cell's samples.
struct CellRun {
    uint32_t cell;
    uint64_t first;
    uint64_t count;
};

struct Box {
    std::vector<CellRun> runs{};
    uint64_t samples = 0;
    uint64_t batch_size = 1;
    PerColumn padded{};  ///< length of the longest in each column
    uint64_t batches() const { return (samples + batch_size - 1) / batch_size; }
};

/// Divides cells into boxes, which are in ascending order of what a sample costs.
class BoxFinder {
public:
    using BatchSizeFor = std::function<uint64_t(std::span<const double>)>;
    using SamplesOf = std::function<double(std::span<const double>)>;
    /// `batch_size_for`: the samples of a full batch that is padded to these lengths; 0 where a
    /// batch of one costs too much.
    /// `estimate`: the same, or a little more and faster. Cuts are chosen by it.
    /// `allows_few`: by_cuts() may cut off boxes of fewer batches than the fewest, even of a part
    /// of one, where that saves much.
    BoxFinder(const Cells& cells, BatchSizeFor batch_size_for, SamplesOf estimate,
              bool allows_few = false);

    /// Boxes of at least `fewest` whole batches. Cuts a box in two, in one column, as long as that
    /// saves batches. The lower side of a cut is divided first. Its boxes keep whole batches only,
    /// and what remains joins the higher side, so that only the last box has a smaller batch.
    /// `is_quick`: no cut is followed to its end before it is chosen, which takes a twentieth of
    /// the time for some tenths of a percent more batches.
    std::vector<Box> by_cuts(uint64_t fewest, bool is_quick, const Progress& progress) const;

    /// At most `count` boxes, with whole batches but for the last one: cuts the box whose cut saves
    /// the most padding, until there are so many. Boxes that are over the budget with one sample
    /// are cut first. They remain only where `count` is too small.
    std::vector<Box> by_shapes(std::size_t count, const Progress& progress) const;

    /// `count` boxes, possibly empty. `box_of` is that of a cell.
    std::vector<Box> by_number(std::size_t count,
                               const std::function<std::size_t(std::size_t)>& box_of) const;

    Waste waste(std::span<const Box> boxes) const;
    /// In ascending order of what a sample costs.
    static void sort(std::vector<Box>& boxes);

private:
    struct Item {
        uint32_t cell;
        uint64_t count;
    };
    /// Samples that may become one box or several.
    struct Node {
        std::vector<std::vector<Item>> by_length;  ///< the same items, ascending in each column
        uint64_t samples = 0;
    };
    /// The lower side has the lengths up to `length` of a column.
    struct Cut {
        std::size_t column = 0;
        double length = 0;
        double score = 0;  ///< 0: none
        bool operator==(const Cut& other) const {
            return column == other.column && length == other.length;
        }
    };
    class Division;
    class Boxes;
    struct Branch;

    /// A cut is the best by some bias; see scores_of().
    static constexpr std::size_t bias_count = 3, usual_bias = 1;
    static std::array<double, bias_count> scores_of(double saving, double share);

    double length(const Item& item, std::size_t column) const {
        return cells_.lengths[item.cell * cells_.columns + column];
    }
    Node all() const;
    PerColumn corner(const Node& node) const;
    uint64_t batch_size(const Node& node) const;
    bool is_over(const Node& node) const;
    void find_cuts(const Node& node, uint64_t fewest, const SamplesOf& per_batch,
                   std::vector<Cut>& cuts) const;
    Cut cut_of_shapes(const Node& node) const;
    /// Branches that are not made boxes yet, and the columns of their cuts.
    using Waiting = std::vector<std::pair<std::size_t, std::size_t>>;
    std::optional<std::size_t> leaf_for(const Item& item, const std::vector<Branch>& tree,
                                        const Waiting& waiting) const;
    Cut best_cut(const Node& node, uint64_t fewest) const;
    Cut considered_cut(const Division& division, uint64_t fewest) const;
    std::pair<Node, Node> divided(const Node& node, const Cut& cut) const;
    void add(std::vector<Item> items, Node& node) const;
    std::vector<Item> cut_tail(Node& node, std::size_t column, uint64_t tail) const;

    const Cells& cells_;
    BatchSizeFor batch_size_for_;
    SamplesOf estimate_;
    bool allows_few_;
};

}  // namespace sab
