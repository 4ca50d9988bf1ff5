#include "sampler/source_dues.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace sab {
namespace {

// What a cost unlike that of the step weighs, beside the squares of the distances.
constexpr double cost_weight = 0.25;
// After so many batches the dues are taken off what was given, so that both stay small.
constexpr std::size_t settle_after = 64;

using Half = SourceBlock::Half;

float sum_of(Half low, Half high) {
    low += high;
    return low[0] + low[1] + (low[2] + low[3]);
}

}  // namespace

SourceAmounts::SourceAmounts(std::size_t sources, double largest)
    : units_(1 / std::max(largest, std::numeric_limits<double>::min())),
      every_((sources + SourceBlock::sources - 1) / SourceBlock::sources),
      sums_(blocks() * SourceBlock::sources),
      last_batch_(blocks(), ~std::size_t{0}),
      all_(sums_.size()) {
    std::iota(every_.begin(), every_.end(), uint16_t{0});
}

void SourceAmounts::reserve(std::size_t batches, std::size_t blocks) {
    ends_.reserve(batches);
    amounts_.reserve(blocks);
    numbers_.reserve(blocks);
}

double SourceAmounts::finish() {
    const double total = finish(sums_.data(), found_, true);
    found_.clear();
    return total;
}

double SourceAmounts::finish_piece() {
    const double total = finish(sums_.data(), found_, false);
    found_.clear();
    return total;
}

double SourceAmounts::finish(double* sums, std::span<const uint16_t> blocks, bool is_new) {
    constexpr std::size_t width = SourceBlock::sources;
    double total = 0;
    for (const uint16_t block : blocks) {
        double* const of_block = sums + block * width;
        double* const all = all_.data() + block * width;
        const double size = (of_block[0] + of_block[1]) + (of_block[2] + of_block[3]) +
                            ((of_block[4] + of_block[5]) + (of_block[6] + of_block[7]));
        if (size == 0) continue;
        total += size;
        SourceBlock amounts;
        for (std::size_t i = 0; i < 4; ++i) {
            amounts.low[i] = static_cast<float>(of_block[i] * units_);
            amounts.high[i] = static_cast<float>(of_block[i + 4] * units_);
        }
        for (std::size_t i = 0; i < width; ++i) {
            if (is_new) all[i] += of_block[i];
            of_block[i] = 0;
        }
        amounts_.push_back(amounts);
        numbers_.push_back(block);
    }
    ends_.push_back(static_cast<uint32_t>(amounts_.size()));
    return total;
}

void SourceAmounts::read_ahead(std::size_t b) const {
    const Blocks blocks = batch(b);
    for (std::size_t i = 0; i < blocks.amounts.size(); i += 2)
        __builtin_prefetch(&blocks.amounts[i]);
    __builtin_prefetch(blocks.numbers);
}

SourceDues::SourceDues(const SourceAmounts& amounts, std::span<const double> costs)
    : amounts_(amounts),
      costs_(costs),
      shares_(amounts.blocks()),
      others_(amounts.blocks()),
      is_given_(amounts.batches()),
      given_(amounts.blocks()) {
    const std::span<const double> of_source = amounts.all();
    const double all = std::accumulate(of_source.begin(), of_source.end(), 0.0);
    for (std::size_t s = 0; s < of_source.size(); ++s) {
        share_.push_back(all > 0 ? of_source[s] / all : 0);
        shares_squared_ += share_[s] * share_[s];
        shares_[s / width].set(s % width, share_[s]);
        others_[s / width].set(s % width, share_[s] < 1 ? 1 / (1 - share_[s]) : 0);
    }
    facts_.reserve(amounts.batches());
    for (std::size_t b = 0; b < amounts.batches(); ++b) {
        facts_.push_back(facts_of(amounts.batch(b)));
        largest_ = std::max(largest_, facts_[b].size);
    }
    for (const Facts& of : facts_) mean_ += of.size / static_cast<double>(facts_.size());
}

SourceDues::Facts SourceDues::facts_of(const SourceAmounts::Blocks& batch) const {
    Facts of;
    Half sizes{}, shared{}, squares{};
    for (std::size_t i = 0; i < batch.amounts.size(); ++i) {
        const auto& [low, high] = batch.amounts[i];
        const SourceBlock& share = shares_[batch.numbers[i]];
        sizes += low + high;
        shared += low * share.low + high * share.high;
        squares += low * low + high * high;
    }
    of.size = sum_of(sizes, Half{});
    of.shared = sum_of(shared, Half{});
    of.squares = sum_of(squares, Half{}) + of.size * (of.size * shares_squared_ - 2 * of.shared);
    return of;
}

double SourceDues::farthest() const {
    const auto total = static_cast<float>(total_);
    Half most{};
    const auto compare_half = [&](const Half& given, const Half& share) {
        const Half ahead = given - share * total, distance = ahead < 0 ? -ahead : ahead;
        most = distance > most ? distance : most;
    };
    for (std::size_t i = 0; i < given_.size(); ++i) {
        compare_half(given_[i].low, shares_[i].low);
        compare_half(given_[i].high, shares_[i].high);
    }
    return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
}

std::size_t SourceDues::richest(uint32_t b) const {
    typedef int32_t Sources __attribute__((vector_size(16)));
    const SourceAmounts::Blocks batch = amounts_.batch(b);
    const auto size = static_cast<float>(facts_[b].size);
    Half most = Half{} - std::numeric_limits<float>::infinity();
    Sources richest{};
    const auto compare_half = [&](const Half& half, const Half& share, const Half& others,
                                  std::size_t first) {
        const Half ahead = (half - share * size) * others;
        const Sources more = ahead > most;
        most = more ? ahead : most;
        richest = more ? Sources{} + static_cast<int32_t>(first) : richest;
    };
    for (std::size_t i = 0; i < batch.amounts.size(); ++i) {
        const std::size_t block = batch.numbers[i];
        const auto& [low, high] = batch.amounts[i];
        compare_half(low, shares_[block].low, others_[block].low, block * width);
        compare_half(high, shares_[block].high, others_[block].high, block * width + 4);
    }
    std::size_t lane = 0;
    for (std::size_t i = 1; i < 4; ++i)
        if (most[i] > most[lane]) lane = i;
    return static_cast<std::size_t>(richest[lane]) + lane;
}

void SourceDues::give(uint32_t batch) {
    is_given_[batch] = true;
    squares_ += change(batch);
    const SourceAmounts::Blocks of = amounts_.batch(batch);
    for (std::size_t i = 0; i < of.amounts.size(); ++i) {
        given_[of.numbers[i]].low += of.amounts[i].low;
        given_[of.numbers[i]].high += of.amounts[i].high;
    }
    total_ += facts_[batch].size;
    given_shared_ += facts_[batch].shared;
    if (++count_ % settle_after == 0) settle();
}

void SourceDues::settle() {
    given_shared_ = squares_ = 0;
    for (std::size_t s = 0; s < share_.size(); ++s) {
        const double ahead = given_of(s) - share_[s] * total_;
        given_[s / width].set(s % width, ahead);
        given_shared_ += ahead * share_[s];
        squares_ += ahead * ahead;
    }
    settled_ += total_;
    total_ = 0;
}

double SourceDues::change(uint32_t batch) const {
    const Facts& of = facts_[batch];
    const SourceAmounts::Blocks blocks = amounts_.batch(batch);
    Half low{}, high{};
    for (std::size_t i = 0; i < blocks.amounts.size(); ++i) {
        const SourceBlock& given = given_[blocks.numbers[i]];
        low += blocks.amounts[i].low * given.low;
        high += blocks.amounts[i].high * given.high;
    }
    const double ahead = sum_of(low, high) - total_ * of.shared -
                         of.size * (given_shared_ - total_ * shares_squared_);
    return of.squares + 2 * ahead;
}

void SourceDues::compare(uint32_t batch, double cost, double unit, Candidate& best) const {
    double score = change(batch);
    if (cost > 0) {
        const double unlike = 1 - std::min(cost, costs_[batch]) / std::max(cost, costs_[batch]);
        score += cost_weight * unit * unit * unlike * unlike;
    }
    if (score < best.score) best = {score, batch};
}

void SourceDues::compare_queued(std::span<uint32_t> queue, std::size_t& next, double cost,
                                double unit, Candidate& best) const {
    std::array<uint32_t, compared> open;
    std::size_t count = 0, i = next;
    for (; i < queue.size() && count < compared; ++i) {
        const uint32_t batch = queue[i];
        if (is_given_[batch]) continue;
        compare(batch, cost, unit, best);
        open[count++] = batch;
    }
    next = i - count;
    std::copy_n(open.begin(), count, queue.begin() + static_cast<std::ptrdiff_t>(next));
}

}  // namespace sab
