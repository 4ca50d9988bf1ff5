#pragma once
/// Counts of single epochs, held against what a uniformly random permutation gives. Statistics that
/// average over keys do not see a weak key, so each count of each key is a test of its own, and one
/// Bonferroni bound covers them all.
///
/// Tails. The pairs of a class form a forest on the samples (disjoint pairs, or paths). Reveal k of
/// its edges one after another: each edge adds a sample whose other end is placed, and it is a hit
/// when that sample gets one of at most `hits` of the places that are left. So the chance that k
/// given edges are all hits is at most prod hits / (n - 2j + 1), j = 1 ... k, and P(X >= t) <=
/// E[C(X, k)] / C(t, k) for every k <= t. These bounds hold for every n and every expected count;
/// for large n they are those of a Poisson count.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sampler/permutation.h"

namespace sab::statistics {

/// Writes the permutation of a key: out[place] = sample.
using Shuffle = std::function<void(uint64_t key, std::span<uint32_t> out)>;

constexpr uint64_t batch_size = 16;

inline double log_choose(double n, double k) {
    return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

/// The largest count of hits among `edges` edges of a forest on n samples that is not less likely
/// than `log_chance`.
inline uint64_t forest_limit(uint64_t edges, double hits, uint64_t n, double log_chance) {
    const auto all = static_cast<double>(edges), samples = static_cast<double>(n);
    for (uint64_t t = 1; t <= edges; ++t) {
        double log_product = 0, least = 0;
        for (uint64_t k = 1; k <= t; ++k) {
            const double left = samples - 2 * static_cast<double>(k) + 1;
            if (left > hits) log_product += std::log(hits / left);
            least = std::min(least, log_choose(all, static_cast<double>(k)) + log_product -
                                        log_choose(static_cast<double>(t), static_cast<double>(k)));
        }
        if (least < log_chance) return t - 1;
    }
    return edges;
}

/// From where to where a hypergeometric count goes: `draws` of n samples, `marked` of which count.
inline std::pair<uint64_t, uint64_t> hypergeometric_limits(uint64_t n, uint64_t marked,
                                                           uint64_t draws, double log_chance) {
    const uint64_t low = marked + draws > n ? marked + draws - n : 0,
                   high = std::min(marked, draws);
    const auto chance = [&](uint64_t x) {
        return std::exp(
            log_choose(static_cast<double>(marked), static_cast<double>(x)) +
            log_choose(static_cast<double>(n - marked), static_cast<double>(draws - x)) -
            log_choose(static_cast<double>(n), static_cast<double>(draws)));
    };
    // Hoeffding: beyond this distance from the mean lies far less than the chance.
    const double mean =
        static_cast<double>(marked) * static_cast<double>(draws) / static_cast<double>(n);
    const double distance = std::sqrt(static_cast<double>(draws) * (30 - log_chance) / 2);
    const double most = std::exp(log_chance);
    uint64_t from = std::max(low, static_cast<uint64_t>(std::max(0.0, mean - distance))),
             to = std::min(high, static_cast<uint64_t>(mean + distance) + 1);
    for (double sum = chance(from); sum < most && from < high; sum += chance(from)) ++from;
    for (double sum = chance(to); sum < most && to > low; sum += chance(to)) --to;
    return {from, to};
}

/// From where to where the number of pairs goes that share a batch in both of two independent
/// epochs. A cell is a batch of one and a batch of the other epoch, and holds c samples, hence C(c,
/// 2) pairs. Chernoff's bound as if cells were independent Poisson events; they compete for the
/// same samples, which makes the true tails lighter. Random shuffles keep to it (test).
inline std::pair<uint64_t, uint64_t> meeting_limits(uint64_t n, double log_chance) {
    struct Cells {
        double count;
        uint64_t rows, columns;
    };
    const uint64_t full = n / batch_size, rest = n % batch_size;
    const auto batches = static_cast<double>(full);
    const Cells kinds[] = {{batches * batches, batch_size, batch_size},
                           {2 * batches, batch_size, rest},
                           {1, rest, rest}};
    std::vector<double> rate(batch_size + 1);  // of cells with c samples
    double mean = 0;
    for (const Cells& kind : kinds)
        for (uint64_t c = 2; c <= std::min(kind.rows, kind.columns); ++c) {
            if (kind.columns - c > n - kind.rows) continue;
            rate[c] +=
                kind.count *
                std::exp(log_choose(static_cast<double>(kind.rows), static_cast<double>(c)) +
                         log_choose(static_cast<double>(n - kind.rows),
                                    static_cast<double>(kind.columns - c)) -
                         log_choose(static_cast<double>(n), static_cast<double>(kind.columns)));
        }
    const auto pairs = [](uint64_t c) { return static_cast<double>(c * (c - 1)) / 2; };
    for (uint64_t c = 2; c <= batch_size; ++c) mean += rate[c] * pairs(c);
    const auto tail = [&](double t) {
        const double sign = t > mean ? 1 : -1;
        double least = 0;
        for (double s = 1e-3; s < 8; s *= 1.02) {
            double sum = -sign * s * t;
            for (uint64_t c = 2; c <= batch_size; ++c)
                if (rate[c] > 0) sum += rate[c] * std::expm1(sign * s * pairs(c));
            least = std::min(least, sum);
        }
        return least;
    };
    uint64_t from = static_cast<uint64_t>(mean), to = from + 1;
    while (from > 0 && tail(static_cast<double>(from) - 1) >= log_chance) --from;
    while (tail(static_cast<double>(to) + 1) >= log_chance) ++to;
    return {from, to};
}

/// The tests of one count of samples.
struct Job {
    uint64_t n;
    uint64_t keys;
    uint64_t differential_keys;  ///< of them
    uint64_t tests() const {
        const uint64_t domain = std::bit_ceil(n),
                       bits = static_cast<uint64_t>(std::bit_width(n - 1));
        return keys * (domain + n / 2 + 2 * 16 + 2) + differential_keys * bits * 2 * domain;
    }
};

/// What counts of n samples may be.
struct Limits {
    struct Circle {
        uint64_t distance;
        uint64_t most;
    };
    using Range = std::pair<uint64_t, uint64_t>;

    uint64_t n;
    uint64_t at_xor, at_cyclic;  ///< pairs of a distance that share a batch
    /// the same for cyclic distances whose edges form short circles
    std::vector<Circle> circles;
    /// samples of a quarter of the bucket, by quarter of the epoch
    Range places[4][4];
    Range meetings;  ///< pairs that share a batch in two successive epochs
    /// pairs of places at a distance whose samples have one difference
    uint64_t xor_differential;
    std::vector<uint64_t> cyclic_differential;

    Limits(uint64_t count, double log_chance)
        : n(count),
          at_xor(forest_limit(n / 2, batch_size - 1, n, log_chance)),
          at_cyclic(forest_limit(n, batch_size - 1, n, log_chance)),
          meetings(meeting_limits(n, log_chance)),
          xor_differential(forest_limit(n / 2, 1, n, log_chance)) {
        for (uint64_t distance = 1; distance < n; distance *= 2)
            cyclic_differential.push_back(forest_limit(n - distance, 1, n, log_chance));
        for (uint64_t place = 0; place < 4; ++place)
            for (uint64_t value = 0; value < 4; ++value)
                places[place][value] =
                    hypergeometric_limits(n, quarter(value + 1) - quarter(value),
                                          quarter(place + 1) - quarter(place), log_chance);
        // The edges of a distance form circles. Where these are short, leaving one edge of each out
        // gives a forest: one of as many as a circle has edges.
        for (uint64_t length = 2; length <= 64 && length <= n; ++length) {
            if (n % length != 0) continue;
            const uint64_t left = length == 2 ? n / 2 : n - n / length;
            const uint64_t most = forest_limit(left, batch_size - 1, n,
                                               log_chance - std::log(static_cast<double>(length)));
            for (uint64_t k = 1; 2 * k <= length; ++k)
                if (std::gcd(k, length) == 1)
                    circles.push_back(
                        {k * (n / length), length == 2 ? most : most * length / (length - 1) + 1});
        }
    }
    uint64_t quarter(uint64_t i) const { return (i * n + 3) / 4; }
};

class Checker {
public:
    explicit Checker(const Limits& limits)
        : limits_(limits),
          n_(limits.n),
          xor_count_(std::bit_ceil(n_)),
          cyclic_count_(n_ / 2 + 1),
          now_(n_),
          batch_before_(n_) {}

    /// Checks epochs `first` ... of a seed; what is wrong is told as text.
    void run(const Shuffle& shuffle, uint64_t seed, uint64_t first, uint64_t epochs,
             uint64_t differential_epochs, std::vector<std::string>& findings) {
        // the one before the first is met by the first
        for (uint64_t epoch = first; epoch <= first + epochs; ++epoch) {
            shuffle(permutation_key(seed, epoch, Purpose::samples, seed % 5), now_);
            if (epoch > first) {
                const std::size_t before = findings.size();
                const uint64_t met = count_pairs();
                check_pairs(findings);
                if (met < limits_.meetings.first || met > limits_.meetings.second)
                    findings.push_back(std::to_string(met) +
                                       " pairs meet in two successive epochs");
                check_places(findings);
                if (epoch <= first + differential_epochs) check_differentials(findings);
                for (std::size_t i = before; i < findings.size(); ++i)
                    findings[i] += " (n = " + std::to_string(n_) + ", seed " +
                                   std::to_string(seed) + ", epoch " + std::to_string(epoch) + ")";
            }
            for (uint64_t place = 0; place < n_; ++place)
                batch_before_[now_[place]] = static_cast<uint32_t>(place / batch_size);
        }
    }

private:
    uint64_t count_pairs() {
        uint64_t met = 0;
        const auto n = static_cast<uint32_t>(n_);
        for (uint64_t begin = 0; begin < n_; begin += batch_size) {
            const uint64_t size = std::min(batch_size, n_ - begin);
            uint32_t batch[batch_size], before[batch_size];
            for (uint64_t i = 0; i < size; ++i)
                before[i] = batch_before_[batch[i] = now_[begin + i]];
            for (uint64_t i = 1; i < size; ++i)
                for (uint64_t j = 0; j < i; ++j) {
                    const uint32_t a = std::max(batch[i], batch[j]),
                                   b = std::min(batch[i], batch[j]), distance = a - b;
                    ++xor_count_[a ^ b];
                    ++cyclic_count_[std::min(distance, n - distance)];
                    met += before[i] == before[j];
                }
        }
        return met;
    }

    void check_pairs(std::vector<std::string>& findings) {
        const auto find = [&](const char* kind, uint64_t distance, uint64_t count, uint64_t limit) {
            if (count > limit)
                findings.push_back(std::to_string(count) + " pairs at " + kind + " distance " +
                                   std::to_string(distance) + " share a batch, at most " +
                                   std::to_string(limit) + " may");
        };
        for (const auto& [distance, limit] : limits_.circles)
            find("cyclic", distance, std::exchange(cyclic_count_[distance], uint16_t{0}), limit);
        if (*std::ranges::max_element(xor_count_) > limits_.at_xor)
            for (uint64_t d = 0; d < xor_count_.size(); ++d)
                find("xor", d, xor_count_[d], limits_.at_xor);
        if (*std::ranges::max_element(cyclic_count_) > limits_.at_cyclic)
            for (uint64_t d = 0; d < cyclic_count_.size(); ++d)
                find("cyclic", d, cyclic_count_[d], limits_.at_cyclic);
        std::ranges::fill(xor_count_, 0);
        std::ranges::fill(cyclic_count_, 0);
    }

    void check_places(std::vector<std::string>& findings) const {
        for (uint64_t place = 0; place < 4; ++place) {
            uint64_t below[5] = {0, 0, 0, 0, 0};
            for (uint64_t i = limits_.quarter(place); i < limits_.quarter(place + 1); ++i)
                for (uint64_t value = 1; value <= 4; ++value)
                    below[value] += now_[i] < limits_.quarter(value);
            for (uint64_t value = 0; value < 4; ++value) {
                const uint64_t count = below[value + 1] - below[value];
                const auto [from, to] = limits_.places[place][value];
                if (count < from || count > to)
                    findings.push_back(std::to_string(count) + " samples of quarter " +
                                       std::to_string(value) + " of the bucket stand in quarter " +
                                       std::to_string(place) + " of the epoch");
            }
        }
    }

    /// Pairs of places at a power-of-two distance whose samples differ by the same amount.
    void check_differentials(std::vector<std::string>& findings) {
        std::size_t index = 0;
        for (uint64_t distance = 1; distance < n_; distance *= 2, ++index) {
            const auto check = [&](const char* kind, uint64_t limit) {
                const uint64_t most = *std::ranges::max_element(xor_count_);
                if (most > limit)
                    findings.push_back(std::to_string(most) + " pairs of places at " + kind +
                                       " distance " + std::to_string(distance) +
                                       " hold the same difference");
                std::ranges::fill(xor_count_, 0);
            };
            for (uint64_t i = 0; i < n_; ++i)
                if ((i & distance) == 0 && (i ^ distance) < n_)
                    ++xor_count_[now_[i] ^ now_[i ^ distance]];
            check("xor", limits_.xor_differential);
            const auto n = static_cast<uint32_t>(n_);
            for (uint64_t i = 0; i + distance < n_; ++i)
                ++xor_count_[now_[i + distance] + (now_[i + distance] < now_[i] ? n : 0) - now_[i]];
            check("cyclic", limits_.cyclic_differential[index]);
        }
    }

    const Limits& limits_;
    const uint64_t n_;
    std::vector<uint16_t> xor_count_, cyclic_count_;
    std::vector<uint32_t> now_, batch_before_;
};

/// All findings. `chance` is that of a single finding in a run of truly random permutations, at
/// most.
inline std::vector<std::string> run(const Shuffle& shuffle, const std::vector<Job>& jobs,
                                    uint64_t first_seed, double chance = 0.01) {
    constexpr uint64_t seeds = 10;
    uint64_t tests = 0;
    for (const Job& job : jobs) tests += job.tests();
    std::vector<Limits> limits;
    for (const Job& job : jobs)
        limits.emplace_back(job.n, std::log(chance / static_cast<double>(tests)));
    std::vector<std::string> findings;
    std::mutex mutex;
    std::atomic<uint64_t> next = 0;
    const auto work = [&] {
        for (uint64_t unit; (unit = next++) < jobs.size() * seeds;) {
            const Job& job = jobs[unit / seeds];
            const uint64_t seed = unit % seeds;
            std::vector<std::string> found;
            const auto share = [&](uint64_t all) {
                return all * (seed + 1) / seeds - all * seed / seeds;
            };
            Checker(limits[unit / seeds])
                .run(shuffle, first_seed + seed, 0, share(job.keys), share(job.differential_keys),
                     found);
            const std::lock_guard lock(mutex);
            findings.insert(findings.end(), found.begin(), found.end());
        }
    };
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < std::min(2u, std::thread::hardware_concurrency()); ++i)
        threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    return findings;
}

}  // namespace sab::statistics
