/// Bytes as an Arrow array whose buffers are as long as they must be, with any contents: a handle
/// reads the same sizes one by one and all at once, and nulls are 0.
#include <algorithm>
#include <memory>

#include "fuzz.h"

namespace {

struct Format {
    const char* format;
    size_t item;  ///< bytes of an element of the second buffer
    size_t more;  ///< elements besides one for each sample
};
constexpr Format formats[] = {{"c", 1, 0},   {"S", 2, 0},   {"i", 4, 0}, {"L", 8, 0},  {"e", 2, 0},
                              {"f", 4, 0},   {"g", 8, 0},   {"u", 4, 1}, {"Z", 8, 1},  {"+l", 4, 1},
                              {"+vL", 8, 0}, {"vu", 16, 0}, {"n", 0, 0}, {"w:9", 0, 0}};

int released = 0;

/// An array with buffers of exactly the bytes that it may use, so that a sanitizer sees more.
class Made {
public:
    Made(Input& input, bool is_text_safe) : format_(formats[input.take<uint8_t>() % 14]) {
        array.length = input.take<uint8_t>() % 40;
        array.offset = input.take<uint8_t>() % 20;
        const auto count = static_cast<size_t>(array.length + array.offset);
        const bool has_nulls = input.take<uint8_t>() % 2 != 0;
        bits_.resize((count + 7) / 8);
        for (uint8_t& byte : bits_) byte = input.take<uint8_t>();
        array.null_count = has_nulls ? -1 : 0;
        values_.resize((count + format_.more) * format_.item);
        for (uint8_t& byte : values_) byte = input.take<uint8_t>();
        texts_.resize(64, ' ');
        for (size_t i = 0; i < 8; ++i) texts_[8 * i] = input.take<uint8_t>();
        if (is_text_safe && std::string_view(format_.format) == "u") hold_in_texts<int32_t>();
        if (is_text_safe && std::string_view(format_.format) == "Z") hold_in_texts<int64_t>();
        third_ = format_.format == std::string_view("+vL") ? values_ : texts_;  // lengths of views
        buffers_[0] = has_nulls ? bits_.data() : nullptr;
        buffers_[1] = values_.data();
        buffers_[2] = third_.data();
        buffers_[3] = &text_size_;
        array.n_buffers = std::string_view(format_.format) == "vu" ? 4 : 3;
        array.buffers = buffers_;
        array.release = [](ArrowArray* of) { ++released, of->release = nullptr; };
        schema.format = format_.format;
        schema.name = "x";
        schema.release = [](ArrowSchema* of) { of->release = nullptr; };
    }

    bool is_null(size_t i) const {
        const size_t bit = i + static_cast<size_t>(array.offset);
        return array.null_count != 0 && (bits_[bit / 8] >> (bit % 8) & 1) == 0;
    }

    ArrowArray array{};
    ArrowSchema schema{};

private:
    /// Makes the offsets of texts lie in them, but for order.
    template <class Offset>
    void hold_in_texts() {
        for (size_t i = 0; i + sizeof(Offset) <= values_.size(); i += sizeof(Offset)) {
            const Offset offset = static_cast<int8_t>(values_[i]) % 65;
            std::memcpy(values_.data() + i, &offset, sizeof offset);
        }
    }

    const Format& format_;
    std::vector<uint8_t> bits_, values_, texts_, third_;
    int64_t text_size_ = 64;
    const void* buffers_[4];
};

void check_sizes(const sab_sizes* sizes, const Made* leaf) {
    const size_t count = sab_sizes_count(sizes);
    double sum = 0;
    bool are_proper = true;
    for (size_t i = 0; i < count; ++i) {
        double size = 0;
        const sab_status status = sab_sizes_get(sizes, i, 1, &size);
        PROMISE(status == SAB_OK || status == SAB_E_ARGUMENT);
        are_proper = are_proper && status == SAB_OK;
        sum += size;
        if (leaf != nullptr && leaf->is_null(i)) PROMISE(status == SAB_OK && size == 0);
    }
    sab_sampler* sampler = nullptr;
    const sab_status status =
        sab_ordered_sampler_new(nullptr, count, sizes, 1e18, nullptr, &sampler);
    PROMISE((status == SAB_OK) == are_proper);
    sab_batch batch = SAB_BATCH_INIT;
    if (status == SAB_OK && count > 0)
        PROMISE(sab_next_batch(sampler, &batch) == SAB_OK && batch.total[0] == sum);
    sab_sampler_free(sampler);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    sab_sizes_arrow_options options = SAB_SIZES_ARROW_OPTIONS_INIT;
    options.nulls = input.take<uint8_t>() % 2;
    static const sab_text_unit units[] = {SAB_TEXT_BYTES, SAB_TEXT_WORDS, SAB_TEXT_VALUE,
                                          SAB_TEXT_ALL_BYTES};
    options.text_unit = units[input.take<uint8_t>() % 4];
    const uint8_t shape = input.take<uint8_t>() % 3;
    Made leaf(input, options.text_unit != SAB_TEXT_ALL_BYTES);
    ArrowArray *child = &leaf.array, around = leaf.array;
    ArrowSchema *child_schema = &leaf.schema, schema_around = leaf.schema;
    if (shape == 1) {  // a struct, which takes a part of its column
        schema_around.format = "+s";
        schema_around.n_children = around.n_children = 1;
        schema_around.children = &child_schema;
        around.children = &child;
        around.offset = input.take<uint8_t>() % 8;
        around.length = input.take<uint8_t>() % 40;
        around.null_count = 0;
    }
    Made indices(input, true);
    if (shape == 2) {
        around = indices.array;
        schema_around = indices.schema;
        schema_around.dictionary = &leaf.schema;
        around.dictionary = &leaf.array;
    }
    const int before = released;
    sab_sizes* sizes = nullptr;
    const sab_status status =
        sab_sizes_arrow_new(&around, &schema_around, shape == 1 ? "x" : nullptr, &options, &sizes);
    PROMISE(status == SAB_OK || status == SAB_E_ARGUMENT);
    PROMISE((around.release == nullptr) == (status == SAB_OK));
    if (status == SAB_OK) {
        const bool is_plain = shape == 0;
        check_sizes(sizes, is_plain ? &leaf : nullptr);
    }
    sab_sizes_free(sizes);
    PROMISE(released == before + (status == SAB_OK ? 1 : 0));
    return 0;
}
