/// Padded lengths of several columns.
#include "sampler/schedule.h"

#include <gtest/gtest.h>

#include <string_view>

namespace sab {
namespace {

/// Two batches of two columns.
class TwoColumns : public RandomAccess {
public:
    SamplerKind kind() const override { return {}; }
    uint64_t epoch() const override { return 0; }
    uint64_t position() const override { return 0; }
    std::size_t skipped(std::span<int64_t>) const override { return 0; }
    uint64_t batch_count() const override { return 2; }
    std::size_t save(std::span<std::byte>) const override { return 0; }
    const sab_sampler_options& options() const override { return options_; }
    uint64_t fingerprint() const override { return 0; }
    std::unique_ptr<RandomAccess> copy() const override { return nullptr; }
    std::size_t columns() const override { return 2; }
    uint64_t first_position() const override { return 0; }
    void fill(uint64_t position, uint64_t, EpochBatch& placed) override {
        placed.position = placed.step = position;
        placed.batch.room(1)[0] = 7;
        placed.batch.columns = 2;
        placed.batch.padded_length = {1.0 + static_cast<double>(position), 0.5};
    }

private:
    void go_to_epoch(uint64_t) override {}
    bool go_to_state(std::span<const std::byte>) override { return false; }
    void move_to(uint64_t) noexcept override {}

    sab_sampler_options options_ = SAB_SAMPLER_OPTIONS_INIT;
};

TEST(Schedule, OfSeveralColumns_HasPaddedLengthsInListsOfAFixedSize) {
    ArrowArrayStream stream;
    make_schedule(std::make_unique<TwoColumns>(), stream);
    ArrowSchema schema;
    ASSERT_EQ(stream.get_schema(&stream, &schema), 0);
    EXPECT_EQ(std::string_view(schema.children[4]->format), "+w:2");
    ASSERT_EQ(schema.children[4]->n_children, 1);
    EXPECT_EQ(std::string_view(schema.children[4]->children[0]->format), "g");
    schema.release(&schema);

    ArrowArray array;
    ASSERT_EQ(stream.get_next(&stream, &array), 0);
    stream.release(&stream);
    ArrowArray lengths = *array.children[4];
    array.children[4]->release = nullptr;
    array.release(&array);
    EXPECT_EQ(lengths.length, 2);
    EXPECT_EQ(lengths.n_buffers, 1);
    ASSERT_EQ(lengths.n_children, 1);
    EXPECT_EQ(lengths.children[0]->length, 4);
    const auto* const values = static_cast<const double*>(lengths.children[0]->buffers[1]);
    EXPECT_EQ(std::vector<double>(values, values + 4), (std::vector<double>{1, 0.5, 2, 0.5}));
    lengths.release(&lengths);
}

}  // namespace
}  // namespace sab
