/// Inverses of many permutations at a time are those of one.
#include <gtest/gtest.h>

#include <vector>

#include "sampler/permutation.h"

namespace sab {
namespace {

TEST(Permutation, Invert_EqualsInverse) {
    for (const std::size_t size : {1u, 3u, 4u, 127u, 128u, 129u, 700u}) {
        std::vector<Permutation> made;
        std::vector<const Permutation*> permutations;
        std::vector<uint64_t> values, expected;
        for (std::size_t i = 0; i < size; ++i) {
            // of any number of bits, small ones and those of tables among them
            const uint64_t count = 1 + mix(i) % (uint64_t{1} << (1 + mix(i + 7) % 47));
            made.emplace_back(count, permutation_key(5, 1, Purpose::samples, i));
            values.push_back(mix(i + 1) % count);
        }
        for (std::size_t i = 0; i < size; ++i) {
            permutations.push_back(&made[i]);
            expected.push_back(made[i].inverse(values[i]));
        }
        Permutation::invert(permutations, values);
        ASSERT_EQ(values, expected) << size;
    }
}

}  // namespace
}  // namespace sab
