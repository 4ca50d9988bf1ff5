/// Padded lengths of several columns.
#include "arrow/schedule.h"

#include <gtest/gtest.h>

#include <string_view>

namespace sab {
namespace {

/// Two batches of two columns.
class TwoColumns : public Sequence {
public:
    std::unique_ptr<Sequence> copy() const override { return nullptr; }
    SamplerKind kind() const override { return {}; }
    uint64_t fingerprint() const override { return 0; }
    std::size_t skipped(std::span<int64_t>) const override { return 0; }
    std::size_t columns() const override { return 2; }
    uint64_t batches() const override { return 2; }
    uint64_t samples(uint64_t) const override { return 1; }
    double cost(uint64_t) const override { return 1; }
    PerColumn total(uint64_t) const override { return {}; }
    void fill(uint64_t position, uint64_t, uint64_t, Batch& batch) const override {
        batch.room(1)[0] = 7;
        batch.columns = 2;
        batch.padded_length = {1.0 + static_cast<double>(position), 0.5};
    }
};

TEST(Schedule, OfSeveralColumns_HasPaddedLengthsInListsOfAFixedSize) {
    ArrowArrayStream stream;
    make_schedule(std::make_unique<Cursor>(std::make_unique<TwoColumns>(), SamplerOptions()),
                  stream);
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
