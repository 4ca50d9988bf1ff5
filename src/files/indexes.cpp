#include "files/indexes.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

namespace sab {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

/// A file of a known format, whose fields are read by position.
class Fields {
public:
    Fields(Input& input, std::string_view format)
        : input_(input), format_(format), image_(input.image()) {}

    [[noreturn]] void refuse(const auto&... why) const {
        fail_format(text("\"", input_.name(), "\""), format_, ": ", why...);
    }
    uint64_t size() const { return image_->size(); }
    uint64_t number(std::size_t offset) const {
        if (size() < offset + sizeof(uint64_t))
            refuse("is truncated: ends at byte ", size(), ", inside the header");
        uint64_t value = 0;
        std::memcpy(&value, image_->data() + offset, sizeof value);
        return value;
    }
    void check_magic(std::string_view magic) const {
        if (size() < magic.size() || std::memcmp(image_->data(), magic.data(), magic.size()) != 0)
            refuse("does not begin with \"", magic.substr(0, magic.find('\0')), "\"");
    }
    void check_version(std::size_t offset) const {
        if (const uint64_t version = number(offset); version != 1)
            refuse("version ", version, " is not known (1 is)");
    }
    const std::byte* at(std::size_t offset) const { return image_->data() + offset; }
    std::shared_ptr<const void> owner() const { return image_; }
    const Progress& progress() const { return input_.progress(); }

    /// A count whose items of `size` bytes must fit into the file, so that sums of products do not
    /// overflow.
    uint64_t count(std::size_t offset, std::string_view name, std::size_t item_size) const {
        const uint64_t value = number(offset);
        if (value > size() / item_size)
            refuse("is truncated or damaged: it promises ", value, " ", name, ", which take ",
                   item_size, " bytes each, but has ", size(), " bytes");
        if (value > largest_sample_count)
            refuse("has ", value, " ", name, ": at most ", largest_sample_count, " are supported");
        return value;
    }

private:
    Input& input_;
    std::string_view format_;
    std::shared_ptr<const std::span<const std::byte>> image_;
};

template <class Number>
Number number_at(const std::byte* data, uint64_t index) {
    Number number;
    std::memcpy(&number, data + index * sizeof number, sizeof number);
    return number;
}

/// Looks for the first i below `count` for which `is_wrong(i)` is true, and calls `refuse(i)`.
/// Each i reads an item of `item_size` bytes.
template <class IsWrong, class Refuse>
void check_all(const Progress& progress, uint64_t count, std::size_t item_size, IsWrong is_wrong,
               Refuse refuse) {
    constexpr uint64_t stretch = uint64_t{1} << 20;
    for (uint64_t first = 0; first < count; first += stretch) {
        progress.report(first * item_size, count * item_size);
        const uint64_t last = std::min(first + stretch, count);
        bool found = false;  // without a branch in the loop, so that it is vectorised
        for (uint64_t i = first; i < last; ++i) found |= is_wrong(i);
        for (uint64_t i = first; found && i < last; ++i)
            if (is_wrong(i)) refuse(i);
    }
    progress.report(count * item_size, count * item_size);
}

/// Of int64 offsets: what follows from one to the next may be a size.
void check_offsets(const Fields& fields, const std::byte* offsets, uint64_t differences,
                   std::string_view name) {
    const auto offset = [&](uint64_t i) { return number_at<int64_t>(offsets, i); };
    if (offset(0) < 0 || offset(0) > static_cast<int64_t>(largest_size))
        fields.refuse(name, "[0] = ", offset(0), ": must be from 0 to 2^53");
    check_all(
        fields.progress(), differences, sizeof(int64_t),
        // wraps for offsets that are far apart: then it is negative or large
        [&](uint64_t i) {
            return static_cast<uint64_t>(offset(i + 1)) - static_cast<uint64_t>(offset(i)) >
                   static_cast<uint64_t>(largest_size);
        },
        [&](uint64_t i) {
            fields.refuse(name, "[", i + 1, "] = ", offset(i + 1), ": must not be less than ", name,
                          "[", i, "] = ", offset(i), ", nor more than 2^53 above it");
        });
}

Sizes lengths_at(const Fields& fields, std::size_t offset, uint64_t count,
                 std::string_view format) {
    const std::byte* const lengths = fields.at(offset);
    check_all(
        fields.progress(), count, sizeof(int32_t),
        [&](uint64_t i) { return number_at<int32_t>(lengths, i) < 0; },
        [&](uint64_t i) {
            fields.refuse("the length of sequence ", i, " is ", number_at<int32_t>(lengths, i),
                          ": must not be negative");
        });
    std::vector<Chunk> chunks{Chunk::numbers(lengths, static_cast<std::size_t>(count), SAB_INT32,
                                             sizeof(int32_t), fields.owner())};
    return Sizes(std::move(chunks),
                 text(format, ": ", counted(static_cast<std::size_t>(count), "sequence")));
}

constexpr std::size_t version_at = 9, count_at = 18, documents_at = 26;
constexpr uint64_t bytes_per_sequence = sizeof(int32_t) + sizeof(int64_t);

Sizes read_legacy(const Fields& fields) {
    fields.check_version(8);
    const uint64_t count = fields.count(32, "samples", 2 * sizeof(int64_t));
    const uint64_t sizes = fields.count(40, "sizes", sizeof(int64_t));
    const std::size_t begin = 48;
    const uint64_t expected = begin + 2 * sizeof(int64_t) * (count + 1) + sizeof(int64_t) * sizes;
    if (fields.size() < expected)
        fields.refuse("is truncated: ", count, " samples and ", sizes, " sizes take ", expected,
                      " bytes, but it has ", fields.size());
    const std::byte* const offsets = fields.at(begin + sizeof(int64_t) * (count + 1));
    check_offsets(fields, offsets, count, "data_offsets");
    std::vector<Chunk> chunks{
        Chunk::differences(offsets, static_cast<std::size_t>(count), SAB_INT64, fields.owner())};
    return Sizes(std::move(chunks), text("fairseq .idx (TNTIDX): ",
                                         counted(static_cast<std::size_t>(count), "sequence")));
}

}  // namespace

IndexKind index_kind(std::span<const std::byte> image) {
    if (image.size() < documents_at) return IndexKind::megatron;
    const auto count = number_at<uint64_t>(image.data() + count_at, 0);
    const uint64_t rest = image.size() - documents_at;
    return rest % bytes_per_sequence == 0 && rest / bytes_per_sequence == count
               ? IndexKind::fairseq
               : IndexKind::megatron;
}

Sizes read_megatron(Input& input) {
    const Fields fields(input, "Megatron .idx");
    fields.check_magic(mapped_index_magic);
    fields.check_version(version_at);
    const uint64_t count = fields.count(count_at, "sequences", bytes_per_sequence);
    const uint64_t documents = fields.count(documents_at, "documents", sizeof(int64_t));
    constexpr std::size_t begin = documents_at + sizeof(uint64_t);
    const uint64_t expected = begin + bytes_per_sequence * count + sizeof(int64_t) * documents;
    // The modes, a byte for each sequence, are optional.
    if (fields.size() != expected && fields.size() != expected + count)
        fields.refuse(fields.size() < expected ? "is truncated: " : "has a wrong size: ", count,
                      " sequences and ", documents, " documents take ", expected, " bytes, or ",
                      expected + count, " with modes, but it has ", fields.size());
    return lengths_at(fields, begin, count, "Megatron .idx");
}

Sizes read_fairseq(Input& input) {
    const Fields fields(input, "fairseq .idx");
    if (fields.size() >= legacy_index_magic.size() &&
        std::memcmp(fields.at(0), legacy_index_magic.data(), legacy_index_magic.size()) == 0)
        return read_legacy(fields);
    fields.check_magic(mapped_index_magic);
    fields.check_version(version_at);
    const uint64_t count = fields.count(count_at, "sequences", bytes_per_sequence);
    const uint64_t expected = documents_at + bytes_per_sequence * count;
    if (fields.size() != expected)
        fields.refuse(fields.size() < expected ? "is truncated: " : "has a wrong size: ", count,
                      " sequences take ", expected, " bytes, but it has ", fields.size());
    return lengths_at(fields, documents_at, count, "fairseq .idx");
}

Sizes read_datatrove(Input& input) {
    const Fields fields(input, "datatrove index");
    if (fields.size() % sizeof(uint64_t) != 0)
        fields.refuse("has ", fields.size(), " bytes: must be a multiple of 8");
    const auto count = static_cast<std::size_t>(fields.size() / sizeof(uint64_t));
    std::vector<Chunk> chunks;
    if (count > 0) {
        // The file has the end of each document: the first is also the size of the first one.
        check_offsets(fields, fields.at(0), count - 1, "ends");
        chunks.push_back(
            Chunk::numbers(fields.at(0), 1, SAB_INT64, sizeof(int64_t), fields.owner()));
        chunks.push_back(Chunk::differences(fields.at(0), count - 1, SAB_INT64, fields.owner()));
    }
    return Sizes(std::move(chunks), text("datatrove index: ", counted(count, "document")));
}

}  // namespace sab
