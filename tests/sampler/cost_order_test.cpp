#include "sampler/cost_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace sab {
namespace {

/// Some classes with drawn options; some have lengths, and tails that follow others.
CostOrder drawn_order(std::mt19937& random) {
    std::vector<BatchClass> classes;
    double cost = 1000;
    const bool has_lengths = random() % 2 == 0;
    for (auto k = 1 + random() % 12; k > 0; --k) {
        classes.push_back(
            {1 + random() % 9, 1 + random() % 60, cost -= static_cast<double>(random() % 80)});
        if (!has_lengths) continue;
        classes.back().length = static_cast<double>(1 + random() % 100);
        classes.back().chain = k;
    }
    if (has_lengths && random() % 2 == 0) {
        BatchClass tail = classes[random() % classes.size()];
        tail.batches = 1;
        tail.cost = 40;
        classes.push_back(tail);
    }
    EpochOptions options;
    options.seed = random();
    options.epoch = random() % 5;
    options.step_batches = 1 + random() % 8;
    options.costliest_first = random() % 3 == 0 ? random() % 20 : 0;
    options.micro_batches = 1 + random() % 5;
    options.mix_lengths = random() % 4 == 0;
    return CostOrder(std::move(classes)).with_options(options);
}

TEST(CostOrder, AllBatchesAtOnce_AreThoseFoundOneByOne) {
    std::mt19937 random(2);
    for (int round = 0; round < 400; ++round) {
        const CostOrder order = drawn_order(random);
        const std::vector<CostOrder::Found> all = order.find_all();
        ASSERT_EQ(all.size(), order.batches());
        for (uint64_t position = 0; position < all.size(); ++position) {
            const CostOrder::Found one = order.find(position);
            EXPECT_EQ(all[position].batch_class, one.batch_class);
            EXPECT_EQ(all[position].batch, one.batch);
        }
    }
}

TEST(CostOrder, IdsOfBatches_HaveTheirPositions) {
    std::mt19937 random(3);
    for (int round = 0; round < 400; ++round) {
        const CostOrder order = drawn_order(random);
        const std::vector<CostOrder::ClassIds> ids = order.class_ids();
        std::vector<uint64_t> positions;
        for (const CostOrder::Found& found : order.find_all())
            positions.push_back(ids[found.batch_class].of(found.batch));
        order.positions_of(positions);
        for (uint64_t position = 0; position < positions.size(); ++position)
            ASSERT_EQ(positions[position], position) << "round " << round;
    }
}

/// Equal batches of lengths from 1 to `lengths`.
CostOrder of_lengths(uint64_t lengths, const EpochOptions& options) {
    std::vector<BatchClass> classes;
    for (uint64_t length = 1; length <= lengths; ++length)
        classes.push_back({100, 4, 1000, static_cast<double>(length), length});
    return CostOrder(std::move(classes)).with_options(options);
}

TEST(CostOrder, MicroSteps_AreOfAllPartsOfTheLengths) {
    for (const uint64_t micro_batches : {2u, 3u, 7u, 40u})
        for (const uint64_t lengths : {100u, 101u, 117u}) {
            const EpochOptions options{5, 1, 4, 0, micro_batches};
            const CostOrder order = of_lengths(lengths, options);
            for (uint64_t first = 0; first + micro_batches <= lengths; first += micro_batches) {
                std::vector<double> of_step;
                for (uint64_t step = first; step < first + micro_batches; ++step)
                    of_step.push_back(order.batch_class(order.find(4 * step).batch_class).length);
                std::ranges::sort(of_step);
                for (uint64_t part = 0; part < micro_batches; ++part) {
                    // the part's share of the lengths; bands mix those within 3 %
                    const double width = static_cast<double>(lengths) / micro_batches;
                    EXPECT_GE(of_step[part], 0.96 * width * part - 1);
                    EXPECT_LE(of_step[part], 1.04 * (width * (part + 1) + 2));
                }
            }
        }
}

TEST(CostOrder, MatesOfAStep_AreOthersInOtherEpochs) {
    uint64_t same = 0, steps = 0;
    const CostOrder one = of_lengths(400, {5, 0, 8}), other = of_lengths(400, {5, 1, 8});
    const std::vector<CostOrder::ClassIds> ids = one.class_ids();
    std::vector<uint64_t> positions;
    for (uint64_t position = 0; position < one.batches(); ++position) {
        const CostOrder::Found found = one.find(position);
        positions.push_back(ids[found.batch_class].of(found.batch));
    }
    other.positions_of(positions);
    for (uint64_t first = 0; first < positions.size(); first += 8, ++steps)
        for (uint64_t i = 1; i < 8; ++i) same += positions[first] / 8 == positions[first + i] / 8;
    EXPECT_LT(static_cast<double>(same) / static_cast<double>(7 * steps), 0.75);
    EXPECT_GT(same, 0u);
}

}  // namespace
}  // namespace sab
