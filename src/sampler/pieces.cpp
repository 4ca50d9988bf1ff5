#include "sampler/pieces.h"

#include <algorithm>
#include <cmath>

namespace sab {
namespace {

/// The fewest pieces of which none costs more than `most`, as far as the run can be divided.
uint64_t pieces_of(const BatchRun& run, double most) {
    const double pieces = std::ceil(run.cost / most);
    return pieces < static_cast<double>(run.most_pieces)
               ? std::max(run.batches, static_cast<uint64_t>(pieces))
               : run.most_pieces;
}

}  // namespace

/// Bisection finds the least cost such that there are no more pieces of at most this cost than
/// ranks. The ranks that are left go to the first runs that can be divided further.
std::vector<uint64_t> divide(std::span<const BatchRun> runs, uint64_t ranks) {
    double high = 1e-300;
    for (const BatchRun& run : runs)
        high = std::max(high, run.cost / static_cast<double>(run.batches));
    high *= 1 + 1e-12;  // the mean times the batches must not be less than the cost
    const auto count_pieces = [&](double most) {
        uint64_t sum = 0;
        for (std::size_t i = 0; i < runs.size() && sum <= ranks; ++i)
            sum += pieces_of(runs[i], most);
        return sum;
    };
    double low = high / (2 * static_cast<double>(ranks));
    for (int i = 0; i < 40; ++i) {
        const double middle = (low + high) / 2;
        (count_pieces(middle) <= ranks ? high : low) = middle;
    }
    uint64_t spare = ranks - count_pieces(high);
    std::vector<uint64_t> pieces;
    pieces.reserve(runs.size());
    for (const BatchRun& run : runs) {
        const uint64_t fewest = pieces_of(run, high),
                       more = std::min(spare, run.most_pieces - fewest);
        spare -= more;
        pieces.push_back(fewest + more);
    }
    return pieces;
}

}  // namespace sab
