/// Copies of samples that are kept apart.
#include "sampler/copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace {

/// Numbers of copies, one sample after the other, and the first of each.
std::vector<uint32_t> firsts_of(const std::vector<std::size_t>& copies) {
    std::vector<uint32_t> firsts;
    for (const std::size_t count : copies)
        firsts.resize(firsts.size() + count, static_cast<uint32_t>(firsts.size()));
    return firsts;
}

std::vector<uint32_t> shuffled(std::size_t count, std::mt19937& random) {
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    return order;
}

TEST(Copies, SeparatedWhereThereAreTwiceAsManyBatches) {
    std::mt19937 random(1);
    const auto below = [&](std::size_t end) { return std::size_t{random()} % end; };
    for (int n = 0; n < 2000; ++n) {
        std::vector<std::size_t> copies(1 + below(100));
        for (std::size_t& count : copies) count = below(50) == 0 ? 60 : 1 + below(6);
        const std::vector<uint32_t> firsts = firsts_of(copies);
        const std::size_t size = 1 + below(20), count = firsts.size(),
                          batches = (count + size - 1) / size;
        std::vector<uint32_t> places = shuffled(count, random);
        sab::separate_copies(places, firsts, size, random());
        EXPECT_EQ(std::set(places.begin(), places.end()).size(), count);
        std::size_t begin = 0;
        for (const std::size_t each : copies) {
            std::set<std::size_t> found;
            for (std::size_t i = begin; i < begin + each; ++i) found.insert(places[i] / size);
            EXPECT_TRUE(2 * each > batches || found.size() == each) << n;
            begin += each;
        }
    }
}

TEST(Copies, SpreadEvenlyOverAnOrder) {
    std::mt19937 random(1);
    const std::vector<uint32_t> firsts = firsts_of(std::vector<std::size_t>(1000, 4));
    std::vector<uint32_t> order = shuffled(firsts.size(), random);
    sab::spread_copies(order, firsts);
    EXPECT_EQ(std::set(order.begin(), order.end()).size(), firsts.size());
    std::map<uint32_t, std::size_t> last;
    for (std::size_t place = 0; place < order.size(); ++place) {
        const uint32_t first = firsts[order[place]];
        EXPECT_TRUE(!last.contains(first) || place - last[first] == 1000);
        last[first] = place;
    }
}

}  // namespace
