/// The epochs of a mixture.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/rounding.h"
#include "engine/even_stride.h"
#include "engine/histogram.h"
#include "plan/plan.h"

namespace sab {
namespace {

__extension__ using Wide = unsigned __int128;

/// Of appearances: more are refused.
constexpr double most_rounded = 0x1p48 + 1;

/// The sum of floor((a i + b) / m) over i < n, modulo 2^64. As in the algorithm of Euclid, a and m
/// change places.
uint64_t floor_sum(uint64_t n, uint64_t m, uint64_t a, uint64_t b) {
    uint64_t sum = 0;
    while (n > 0) {
        sum += static_cast<uint64_t>(Wide{n} * (n - 1) / 2) * (a / m) + n * (b / m);
        a %= m;
        b %= m;
        const Wide most = Wide{a} * n + b;
        n = static_cast<uint64_t>(most / m);
        b = static_cast<uint64_t>(most % m);
        std::swap(a, m);
    }
    return sum;
}

/// Spreads the turns of a source over its samples, which are numbered by size: turn j goes to the
/// sample i with i * stride = j modulo their number. So any turns in a row are spread evenly over
/// the sizes, and any samples in a row get them at even distances.
class TurnSpread {
public:
    explicit TurnSpread(uint64_t samples) : samples_(samples), stride_(even_stride(samples)) {}

    /// Of the first `turns` turns, those of the samples below `end`. `turns`: at most the samples.
    uint64_t before(uint64_t end, uint64_t turns) const {
        return end - (floor_sum(end, samples_, stride_, samples_ - turns) -
                      floor_sum(end, samples_, stride_, 0));
    }

private:
    uint64_t samples_, stride_;
};

}  // namespace

/// Epoch e has the turns from e * taken on, `taken` of them, modulo the samples of the source.
Histogram Histogram::in_epoch(std::span<const double> repeats, uint64_t epoch,
                              uint64_t seed) const {
    if (source_count_ == 0) refuse_argument("histogram", no_value, "must be of a mixture");
    if (turns_) refuse_argument("histogram", no_value, "is of an epoch: must be of all samples");
    check(repeats.empty() || repeats.size() == source_count_, "repeat_count", repeats.size(),
          "must be the number of sources, ", source_count_);
    for (std::size_t s = 0; s < repeats.size(); ++s)
        if (!(repeats[s] >= 0 && std::isfinite(repeats[s])))
            refuse_argument(named("repeats[", s, "]"), repeats[s], "must be at least 0");
    Histogram made = *this;
    auto turns = std::make_shared<CountedTurns>();
    turns->epoch = epoch;
    turns->seed = seed;
    turns->columns = columns();
    turns->sizes = sizes_;
    made.samples_ = 0;
    for (std::size_t first = 0, end = 0; first < entries(); first = end) {
        const uint32_t source = sources_[first];
        uint64_t samples = 0;
        for (; end < entries() && sources_[end] == source; ++end) samples += counts_[end];
        const uint64_t taken = rounded(std::min(
                           static_cast<double>(samples) * (repeats.empty() ? 1 : repeats[source]),
                           most_rounded)),
                       least = taken / samples, extra = taken % samples,
                       start = static_cast<uint64_t>(Wide{epoch % samples} * extra % samples),
                       stop = std::min(start + extra, samples), over = start + extra - stop;
        check(taken <= largest_counted_samples - made.samples_, "repeats", no_value, "give ",
              made.samples_ + taken, " samples: must give at most 2^48");
        made.samples_ += taken;
        const TurnSpread spread(samples);
        uint64_t before = 0, at_start = 0, at_stop = 0, at_over = 0;  // of the entries before
        for (std::size_t k = first; k < end; ++k) {
            EntryTurns entry{counts_[k], least * counts_[k], 0, source};
            before += counts_[k];
            const auto since = [&](uint64_t& known, uint64_t turn) {
                const uint64_t now = spread.before(before, turn);
                return now - std::exchange(known, now);
            };
            if (extra > 0) {
                const uint64_t own_start = since(at_start, start);
                entry.turns += since(at_stop, stop) - own_start + since(at_over, over);
                entry.start = own_start % counts_[k];
            }
            made.counts_[k] = entry.turns;
            turns->entries.push_back(entry);
        }
    }
    check(made.samples_ > 0, "repeats", no_value, "give ", made.samples_,
          " samples: must give at least 1");
    made.turns_ = std::move(turns);
    return made;
}

Histogram Histogram::without_sources() const {
    const auto sizes_at = [&](std::size_t k) {
        return std::span(sizes_).subspan(k * columns(), columns());
    };
    Histogram made;
    made.names_ = names_;
    for (const std::size_t k : turns_->by_size()) {
        if (counts_[k] == 0) continue;
        if (made.entries() > 0 &&
            std::ranges::equal(sizes_at(k), std::span(made.sizes_).last(columns()))) {
            made.counts_.back() += counts_[k];
            made.samples_ += counts_[k];
        } else {
            made.append(*this, k, counts_[k]);
        }
    }
    return made;
}

}  // namespace sab
