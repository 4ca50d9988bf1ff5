#include "sampler/copies.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/sorting.h"
#include "sampler/permutation.h"

namespace sab {
namespace {

class CopiesApart {
public:
    CopiesApart(std::span<uint32_t> places, std::span<const uint32_t> firsts, uint64_t batch_size,
                uint64_t key)
        : places_(places),
          firsts_(firsts),
          batch_size_(batch_size),
          key_(key),
          batches_((places.size() + batch_size - 1) / batch_size),
          next_(firsts.size()),
          holds_(batches_, none) {
        for (uint32_t i = 0; i < firsts.size(); ++i) {
            next_[i] = firsts[i] < i ? next_[firsts[i]] : i;
            next_[firsts[i]] = i;
        }
    }

    /// Of the sample with this first copy.
    void separate(uint32_t first) {
        std::size_t copies = 0;
        together_.clear();
        visit(first, [&](uint32_t i) {
            uint32_t& holds = holds_[batch(i)];
            if (holds == first) together_.push_back(i);
            holds = first;
            return ++copies > 0;
        });
        for (const uint32_t i : together_) move(i, 2 * copies <= batches_);
    }

private:
    static constexpr uint32_t none = ~uint32_t{0};
    uint64_t batch(std::size_t i) const { return places_[i] / batch_size_; }
    /// All copies of a sample, as long as `go_on` says so.
    template <class Visit>
    void visit(uint32_t i, Visit&& go_on) const {
        for (uint32_t copy = next_[i]; go_on(copy) && copy != i; copy = next_[copy]) {
        }
    }

    /// Exchanges the copy with a random sample. If this must be possible, all samples are tried
    /// where the draws find none. Mostly nearly all of them will do.
    void move(uint32_t i, bool is_sure) {
        constexpr uint64_t draws = 16;
        const std::size_t count = places_.size();
        const uint64_t keyed = mix(key_ ^ i);
        for (uint64_t n = 0; n < draws; ++n)
            if (exchange(i, multiply_high(mix(keyed ^ n), count))) return;
        const std::size_t first = multiply_high(mix(keyed ^ draws), count);
        for (std::size_t n = 0; is_sure && n < count; ++n)
            if (exchange(i, first + n < count ? first + n : first + n - count)) return;
    }
    bool exchange(uint32_t i, std::size_t other) {
        const uint64_t to = batch(other);
        if (holds_[to] == firsts_[i] || !can_move(static_cast<uint32_t>(other), batch(i)))
            return false;
        std::swap(places_[i], places_[other]);
        holds_[to] = firsts_[i];
        return true;
    }
    /// Whether the batch has no other copy of the sample. One that has too many copies to keep them
    /// apart does not keep its place from another.
    bool can_move(uint32_t i, uint64_t to) const {
        std::size_t copies = 0;
        bool is_free = true;
        visit(i, [&](uint32_t copy) {
            is_free = is_free && (copy == i || batch(copy) != to);
            return 2 * ++copies <= batches_;
        });
        return is_free || 2 * copies > batches_;
    }

    std::span<uint32_t> places_;
    std::span<const uint32_t> firsts_;
    uint64_t batch_size_, key_;
    std::size_t batches_;
    std::vector<uint32_t> next_;   ///< copy of the same sample, round and round
    std::vector<uint32_t> holds_;  ///< of each batch the sample at hand that is in it, or another
    std::vector<uint32_t> together_;  ///< copies that are in the batch of one before them
};

}  // namespace

void separate_copies(std::span<uint32_t> places, std::span<const uint32_t> firsts,
                     uint64_t batch_size, uint64_t key) {
    CopiesApart copies(places, firsts, batch_size, key);
    for (uint32_t i = 0; i < firsts.size(); ++i)
        if (firsts[i] == i) copies.separate(i);
}

void spread_copies(std::span<uint32_t> order, std::span<const uint32_t> firsts) {
    if (firsts.empty()) return;
    const std::size_t count = order.size();
    std::vector<uint32_t> copies(count);  // by first copy
    for (const uint32_t first : firsts) ++copies[first];
    std::vector<double> place(count);
    for (std::size_t p = 0; p < count; ++p) place[order[p]] = static_cast<double>(p);
    std::vector<uint32_t> before(count);  // copies of the same sample, by its first
    for (std::size_t i = 0; i < count; ++i) {
        const uint32_t first = firsts[i];
        place[i] = i == first ? place[i] / copies[first]
                              : place[first] +
                                    static_cast<double>(count) * ++before[first] / copies[first];
    }
    std::ranges::copy(by_ascending(place), order.begin());
}

}  // namespace sab
