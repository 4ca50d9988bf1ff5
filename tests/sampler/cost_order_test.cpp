#include "sampler/cost_order.h"

#include <gtest/gtest.h>

#include <random>

namespace sab {
namespace {

TEST(CostOrder, AllBatchesAtOnce_AreThoseFoundOneByOne) {
    std::mt19937 random(2);
    for (int round = 0; round < 200; ++round) {
        std::vector<BatchClass> classes;
        double cost = 1000;
        for (auto k = 1 + random() % 12; k > 0; --k)
            classes.push_back(
                {1 + random() % 9, 1 + random() % 60, cost -= static_cast<double>(random() % 80)});
        EpochOptions options;
        options.seed = random();
        options.epoch = random() % 5;
        options.step_batches = 1 + random() % 8;
        options.costliest_first = round % 3 == 0 ? random() % 20 : 0;
        const CostOrder order = CostOrder(std::move(classes)).with_options(options);
        const std::vector<CostOrder::Found> all = order.find_all();
        ASSERT_EQ(all.size(), order.batches());
        for (uint64_t position = 0; position < all.size(); ++position) {
            const CostOrder::Found one = order.find(position);
            EXPECT_EQ(all[position].batch_class, one.batch_class);
            EXPECT_EQ(all[position].batch, one.batch);
        }
    }
}

}  // namespace
}  // namespace sab
