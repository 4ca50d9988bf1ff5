#include "stream/proportional_sequence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "stream/stream.h"

namespace sab {

ProportionalSequence::ProportionalSequence(std::span<const double> proportions, uint64_t window)
    : proportions_(proportions),
      whole_(static_cast<int64_t>(window)),
      sources_(proportions.size()) {
    while (whole_ <= int64_t{1} << 39) whole_ *= 2;
    double sum = 0;
    for (std::size_t i = 0; i < proportions.size(); ++i) {
        check(proportions[i] >= 0 && std::isfinite(proportions[i]),
              text("options.proportions[", i, "]"), proportions[i],
              "must be finite and not negative");
        sum += proportions[i];
    }
    check(std::isfinite(sum), "options.proportions", no_value, "their sum is ", sum,
          ": must be finite");
    check(sum > 0, "options.proportions", no_value, "their sum is ", sum, ": must be above 0");
    const double least = sum * 0x1p-39;
    for (std::size_t i = 0; i < proportions.size(); ++i)
        check(proportions[i] == 0 || proportions[i] >= least, text("options.proportions[", i, "]"),
              proportions[i], "must be 0 or at least their sum / 2^39, ", least);
    restart();
}

void ProportionalSequence::restart() noexcept {
    for (std::size_t i = 0; i < sources_.size(); ++i) sources_[i].share = proportions_[i] > 0;
    share_out();
}

/// Shares of the sources that have turns, rounded so that their sum is a whole turn.
void ProportionalSequence::share_out() noexcept {
    sum_ = 0;
    source_count_ = 0;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        sources_[i].lag = 0;
        if (sources_[i].share == 0) continue;
        sum_ += proportions_[i];
        ++source_count_;
    }
    if (is_over()) return;
    int64_t left = whole_;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        Source& source = sources_[i];
        if (source.share == 0) continue;
        source.share = std::llround(exact_share(i));
        left -= source.share;
    }
    while (left != 0) {  // at most one part for each source
        const int64_t step = left > 0 ? 1 : -1;
        std::size_t best = 0;
        double most = -std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < sources_.size(); ++i) {
            const int64_t share = sources_[i].share;
            if (share == 0 || share + step == 0) continue;
            const double missing =
                static_cast<double>(step) * (exact_share(i) - static_cast<double>(share));
            if (missing <= most) continue;
            most = missing;
            best = i;
        }
        sources_[best].share += step;
        left -= step;
    }
}

std::size_t ProportionalSequence::next() const {
    const auto divisor = std::max<int64_t>(2, 2 * static_cast<int64_t>(source_count_) - 2);
    std::size_t best = 0;
    int64_t earliest = std::numeric_limits<int64_t>::max();
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        const auto [share, lag] = sources_[i];
        const int64_t due = divisor * (lag + share);
        if (share == 0 || due < whole_) continue;  // its turn would come too early
        const int64_t room = whole_ * (divisor - 1) - due;
        const int64_t deadline = room < 0 ? 0 : room / (divisor * share) + 1;  // in turns from now
        if (deadline >= earliest) continue;
        earliest = deadline;
        best = i;
    }
    return best;
}

void ProportionalSequence::take(std::size_t source) noexcept {
    for (Source& each : sources_) each.lag += each.share;
    sources_[source].lag -= whole_;
}

void ProportionalSequence::drop(std::size_t source) noexcept {
    sources_[source].share = 0;
    share_out();
}

void ProportionalSequence::save(StateWriter& state) const {
    for (const Source& source : sources_) {
        state.number(source.share > 0);
        state.number(static_cast<uint64_t>(source.lag));
    }
}

void ProportionalSequence::restore(StateReader& state) {
    std::vector<Source> read(sources_.size());
    int64_t sum = 0;
    for (std::size_t i = 0; i < read.size(); ++i) {
        read[i].share = static_cast<int64_t>(state.number(proportions_[i] > 0));
        read[i].lag = static_cast<int64_t>(state.number());
        const int64_t most = read[i].share == 0 ? 0 : whole_;
        if (read[i].lag < -most || read[i].lag > most) StateReader::refuse();
        sum += read[i].lag;
    }
    if (sum != 0) StateReader::refuse();
    for (std::size_t i = 0; i < read.size(); ++i) sources_[i].share = read[i].share;
    share_out();
    for (std::size_t i = 0; i < read.size(); ++i) sources_[i].lag = read[i].lag;
}

}  // namespace sab
