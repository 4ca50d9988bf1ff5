/// Single epochs of the bucket order's permutation against uniformly random permutations; see
/// pair_statistics.h. Order version 1, which had weak keys, is kept here to show that the tests
/// find them. Golden vectors pin the permutation, so some of the keys of a large run will do.
#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "pair_statistics.h"

namespace sab::statistics {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// sanitizers look for other defects: a twentieth of the keys will do
constexpr uint64_t scale = 20;
#else
constexpr uint64_t scale = 1;
#endif

void version_1(uint64_t key, std::span<uint32_t> out) {
    const auto bits = static_cast<uint32_t>(std::bit_width(out.size() - 1));
    const uint32_t mask = (uint32_t{1} << bits) - 1, shift = (bits + 1) / 2;
    uint32_t add[4], multiply[4];
    for (int r = 0; r < 4; ++r) {
        key = mix(key);
        add[r] = static_cast<uint32_t>(key);
        multiply[r] = static_cast<uint32_t>(key >> 32) | 1;
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
        auto x = static_cast<uint32_t>(i);
        do
            for (int r = 0; r < 4; ++r) {
                x = ((x + add[r]) * multiply[r]) & mask;
                x ^= x >> shift;
            }
        while (x >= out.size());
        out[i] = x;
    }
}

void version_3(uint64_t key, std::span<uint32_t> out) {
    Permutation(out.size(), key).fill(0, out);
}

/// A size class in three buckets, which hold others as well.
void exchanged(uint64_t key, std::span<uint32_t> out) {
    const std::size_t third = out.size() / 3;
    for (std::size_t begin = 0; begin < out.size(); begin += std::max<std::size_t>(1, third)) {
        const auto part = out.subspan(begin, std::min(third, out.size() - begin));
        Permutation(part.size(), mix(key + begin)).fill(0, part);
        for (uint32_t& place : part) place += static_cast<uint32_t>(begin);
    }
    const auto count = static_cast<uint32_t>(out.size());
    Permutation(count, key).map({0, count, 0, 0}, out);
}

void truly_random(uint64_t key, std::span<uint32_t> out) {
    std::mt19937_64 random(key);
    std::iota(out.begin(), out.end(), 0u);
    for (std::size_t left = out.size(); left > 1; --left)
        std::swap(out[left - 1], out[multiply_high(random(), left)]);
}

std::string first_of(const std::vector<std::string>& findings) {
    std::string text = std::to_string(findings.size()) + " findings";
    for (std::size_t i = 0; i < std::min<std::size_t>(findings.size(), 10); ++i)
        text += "\n  " + findings[i];
    return text;
}

TEST(PermutationStatistics, Version3_IsWithinARandomPermutationForEachKey) {
    if (scale > 1) std::cout << "under a sanitizer: 1/" << scale << " of the keys\n";
    std::vector<Job> jobs;
    for (const uint64_t n : {20u, 100u, 513u, 1024u, 2047u, 2048u, 2049u, 4096u, 16384u})
        jobs.push_back({n, 500 / scale, 500 / scale});
    for (const uint64_t n : {65536u, (1u << 20) - 1, (1u << 20) + 1})
        jobs.push_back({n, 60 / scale, 3});
    const auto findings = run(version_3, jobs, 1);
    EXPECT_TRUE(findings.empty()) << first_of(findings);
}

TEST(PermutationStatistics, ExchangedClass_IsWithinARandomPermutationForEachKey) {
    std::vector<Job> jobs;
    for (const uint64_t n : {60u, 513u, 2048u, 16384u})
        jobs.push_back({n, 300 / scale, 300 / scale});
    const auto findings = run(exchanged, jobs, 1);
    EXPECT_TRUE(findings.empty()) << first_of(findings);
}

TEST(PermutationStatistics, Version1_IsRejected) {
    for (const uint64_t n : {1024u, 2048u, 4096u, 16384u}) {
        // by pairs that share a batch alone
        const auto findings = run(version_1, {{n, 2000 / scale, 0}}, 1);
        EXPECT_FALSE(findings.empty()) << n;
    }
}

TEST(PermutationStatistics, RandomShuffles_AreAccepted) {
    std::vector<Job> jobs;
    for (const uint64_t n : {20u, 100u, 513u, 1024u, 2049u, 16384u})
        jobs.push_back({n, 500 / scale, 500 / scale});
    const auto findings = run(truly_random, jobs, 1);
    EXPECT_TRUE(findings.empty()) << first_of(findings);
}

}  // namespace
}  // namespace sab::statistics
