/// Arrow's C data and stream interfaces: numbers are read in place, and lengths from offsets.
/// https://arrow.apache.org/docs/format/CDataInterface.html
#include "arrow/arrow_sizes.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "sizes/texts.h"

namespace sab {
namespace {

enum class Kind : uint8_t { numbers, halves, offsets, views, list_sizes, fixed, nulls };

struct Type {
    std::string_view format;  ///< of a fixed size: what comes before it
    std::string_view name;
    Kind kind;
    sab_dtype dtype;  ///< of the numbers, offsets or lengths
    int64_t buffers;  ///< at least as many
    std::string_view noun;
};

constexpr Type types[] = {{"c", "int8", Kind::numbers, SAB_INT8, 2, "size"},
                          {"s", "int16", Kind::numbers, SAB_INT16, 2, "size"},
                          {"i", "int32", Kind::numbers, SAB_INT32, 2, "size"},
                          {"l", "int64", Kind::numbers, SAB_INT64, 2, "size"},
                          {"C", "uint8", Kind::numbers, SAB_UINT8, 2, "size"},
                          {"S", "uint16", Kind::numbers, SAB_UINT16, 2, "size"},
                          {"I", "uint32", Kind::numbers, SAB_UINT32, 2, "size"},
                          {"L", "uint64", Kind::numbers, SAB_UINT64, 2, "size"},
                          {"e", "float16", Kind::halves, SAB_UINT16, 2, "size"},
                          {"f", "float32", Kind::numbers, SAB_FLOAT32, 2, "size"},
                          {"g", "float64", Kind::numbers, SAB_FLOAT64, 2, "size"},
                          {"u", "string", Kind::offsets, SAB_INT32, 3, "text"},
                          {"U", "large string", Kind::offsets, SAB_INT64, 3, "text"},
                          {"vu", "string view", Kind::views, SAB_INT32, 3, "text"},
                          {"z", "binary", Kind::offsets, SAB_INT32, 3, "value"},
                          {"Z", "large binary", Kind::offsets, SAB_INT64, 3, "value"},
                          {"vz", "binary view", Kind::views, SAB_INT32, 3, "value"},
                          {"w:", "fixed-size binary", Kind::fixed, SAB_INT32, 1, "value"},
                          {"+l", "list", Kind::offsets, SAB_INT32, 2, "list"},
                          {"+L", "large list", Kind::offsets, SAB_INT64, 2, "list"},
                          {"+vl", "list view", Kind::list_sizes, SAB_INT32, 3, "list"},
                          {"+vL", "large list view", Kind::list_sizes, SAB_INT64, 3, "list"},
                          {"+w:", "fixed-size list", Kind::fixed, SAB_INT32, 1, "list"},
                          {"n", "null", Kind::nulls, SAB_INT32, 0, "value"}};

/// The bits of which 0 is a null, a byte for eight samples. Null: there are no nulls.
using Validity = std::shared_ptr<const std::vector<uint8_t>>;

/// Where a column is below the schema.
struct Column {
    std::vector<int64_t> path;
    const ArrowSchema* schema;
    std::string name;    ///< for messages
    std::string prefix;  ///< of the names of columns in it
};

/// The samples of a column in one array.
struct Slice {
    const ArrowArray* array;
    std::size_t first;  ///< in the buffers
    std::size_t count;
    Validity validity;
};

std::string_view name_of(const ArrowSchema& schema) {
    return schema.name == nullptr ? "" : schema.name;
}

bool is_struct(const ArrowSchema& schema) {
    return std::string_view(schema.format) == "+s" && schema.dictionary == nullptr;
}

void check_schema(const ArrowSchema* schema) {
    require(schema, "schema");
    if (schema->release == nullptr) refuse_argument("schema", no_value, "was released already");
    require(schema->format, "schema.format");
    check(schema->n_children >= 0, "schema.n_children", schema->n_children, "must not be negative");
    if (schema->n_children > 0) require(schema->children, "schema.children");
}

const ArrowSchema& child_of(const ArrowSchema& schema, int64_t i) {
    check_schema(schema.children[i]);
    return *schema.children[i];
}

/// "a", "b": the columns of a struct, with the names of the structs around it.
std::string columns_of(const Column& column) {
    constexpr int64_t most = 40;  // a message is short
    std::string names;
    const int64_t count = column.schema->n_children;
    for (int64_t i = 0; i < std::min(count, most); ++i)
        names += text(i > 0 ? ", " : "", "\"", column.prefix, name_of(child_of(*column.schema, i)),
                      "\"");
    if (count > most) names += text(" and ", count - most, " more");
    return count == 0 ? "none" : names;
}

void descend(Column& column, int64_t child) {
    column.schema = &child_of(*column.schema, child);
    column.path.push_back(child);
    column.prefix += text(name_of(*column.schema), ".");
}

/// The child that is called `rest`, or the struct whose name is the start of `rest`. Names may have
/// dots: the longest name counts.
std::optional<int64_t> find_child(const Column& column, std::string_view rest, bool& is_whole) {
    std::optional<int64_t> found;
    is_whole = false;
    for (int64_t i = 0; i < column.schema->n_children; ++i) {
        const ArrowSchema& child = child_of(*column.schema, i);
        const std::string_view name = name_of(child);
        if (name == rest) {
            check(!is_whole, "column", Quoted{text(column.prefix, rest)},
                  "two columns have this name");
            found = i;
            is_whole = true;
        } else if (!is_whole && is_struct(child) && rest.starts_with(name) &&
                   rest.substr(name.size()).starts_with('.') &&
                   (!found || name.size() > name_of(child_of(*column.schema, *found)).size())) {
            found = i;
        }
    }
    return found;
}

Column find_struct_column(const ArrowSchema& schema, const char* given) {
    check_schema(&schema);
    Column column{{}, &schema, "the array", ""};
    if (given == nullptr) {
        while (is_struct(*column.schema) && column.schema->n_children == 1) descend(column, 0);
        check(!is_struct(*column.schema), "column", "NULL", "must be one of ", columns_of(column));
        return column;
    }
    column.name = text("column \"", given, "\"");
    std::string_view rest = given;
    for (bool is_whole = false; !is_whole;) {
        check(is_struct(*column.schema), "column", Quoted{given},
              "must not be given, since the array is not a struct");
        const std::optional<int64_t> child = find_child(column, rest, is_whole);
        check(child.has_value(), "column", Quoted{given}, "must be one of ", columns_of(column));
        descend(column, *child);
        if (!is_whole) rest.remove_prefix(name_of(*column.schema).size() + 1);
    }
    check(!is_struct(*column.schema), "column", Quoted{given}, "is a struct, must be one of ",
          columns_of(column));
    return column;
}

Column find_column(const ArrowSchema& schema, const char* given) {
    Column column = find_struct_column(schema, given);
    if (column.schema->dictionary != nullptr) check_schema(column.schema->dictionary);
    return column;
}

const Type& type_of(const ArrowSchema& schema, std::string_view name) {
    const std::string_view format = schema.format;
    for (const Type& type : types)
        if (type.kind == Kind::fixed ? format.starts_with(type.format) : format == type.format)
            return type;
    refuse_argument(name, no_value, "Arrow format \"", format,
                    "\" has no size; numbers, texts, binary values and lists have");
}

void check_array(const ArrowArray* array, std::string_view name) {
    constexpr int64_t most = int64_t{1} << 48;  // so that sums and bytes do not overflow
    const auto kept = [&](std::string_view field, int64_t value, bool is_kept, const char* rule) {
        if (!is_kept) refuse_argument(name, no_value, field, " = ", value, ": ", rule);
    };
    if (array == nullptr) refuse_argument(name, no_value, "the array is missing");
    if (array->release == nullptr)
        refuse_argument(name, no_value, "the array was released already");
    kept("length", array->length, array->length >= 0 && array->length <= most,
         "must be from 0 to 2^48");
    kept("offset", array->offset, array->offset >= 0 && array->offset <= most,
         "must be from 0 to 2^48");
    kept("null_count", array->null_count, array->null_count >= -1, "must be at least -1");
    kept("n_buffers", array->n_buffers, array->n_buffers >= 0, "must not be negative");
    if (array->n_buffers > 0 && array->buffers == nullptr)
        refuse_argument(name, no_value, "buffers = NULL: must be given");
}

const std::byte* buffer_of(const Slice& slice, int64_t index, std::string_view name) {
    const void* const buffer = slice.array->buffers[index];
    if (buffer == nullptr)
        refuse_argument(name, no_value, "buffers[", index, "] = NULL: must be given");
    return static_cast<const std::byte*>(buffer);
}

/// Narrows the slice's validity by the bitmap of its array. Bits behind the last sample stay 1.
void add_bitmap(Slice& slice) {
    const ArrowArray& array = *slice.array;
    if (array.null_count == 0 || array.n_buffers == 0 || array.buffers[0] == nullptr) return;
    const auto* bits = static_cast<const uint8_t*>(array.buffers[0]) + slice.first / 8;
    const std::size_t shift = slice.first % 8, count = slice.count;
    auto made = slice.validity == nullptr
                    ? std::make_shared<std::vector<uint8_t>>((count + 7) / 8, uint8_t{255})
                    : std::make_shared<std::vector<uint8_t>>(*slice.validity);
    for (std::size_t k = 0; k < made->size(); ++k) {
        const std::size_t used = std::min<std::size_t>(8, count - 8 * k);
        unsigned byte = static_cast<unsigned>(bits[k]) >> shift;
        if (shift + used > 8) byte |= static_cast<unsigned>(bits[k + 1]) << (8 - shift);
        (*made)[k] &= static_cast<uint8_t>(byte | ~((1u << used) - 1));
    }
    const bool has_null = std::ranges::any_of(*made, [](uint8_t byte) { return byte != 255; });
    if (has_null) slice.validity = std::move(made);
}

Slice find_slice(const ArrowArray& array, const Column& column) {
    check_array(&array, column.name);
    Slice slice{&array, static_cast<std::size_t>(array.offset),
                static_cast<std::size_t>(array.length), nullptr};
    check(slice.count <= largest_sample_count, text(column.name, ": length"), slice.count,
          "must be at most ", largest_sample_count);
    add_bitmap(slice);
    for (const int64_t i : column.path) {
        if (i >= slice.array->n_children || slice.array->children == nullptr)
            refuse_argument(column.name, no_value, "n_children = ", slice.array->n_children,
                            ": must be that of the schema");
        const ArrowArray* const child = slice.array->children[i];
        check_array(child, column.name);
        // the offset of a struct applies to its children, too
        if (static_cast<std::size_t>(child->length) < slice.first + slice.count)
            refuse_argument(column.name, no_value, "length = ", child->length,
                            ": must be at least offset + length of the struct around it, ",
                            slice.first + slice.count);
        slice.array = child;
        slice.first += static_cast<std::size_t>(child->offset);
        add_bitmap(slice);
    }
    return slice;
}

bool is_valid(const Validity& validity, std::size_t i) {
    return validity == nullptr || ((*validity)[i / 8] >> (i % 8) & 1) != 0;
}

std::size_t fixed_size(const ArrowSchema& schema, const Type& type, std::string_view name) {
    const std::string_view digits = std::string_view(schema.format).substr(type.format.size());
    int32_t size = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (error != std::errc{} || end != digits.data() + digits.size() || size < 0)
        refuse_argument(name, no_value, "Arrow format \"", std::string_view(schema.format),
                        "\": the size must be a whole number");
    return static_cast<std::size_t>(size);
}

template <class Offset>
void check_offsets(DenseView<Offset> offsets, std::size_t count, std::string_view name) {
    bool ascends = offsets[0] >= 0;
    for (std::size_t i = 0; i < count; ++i) ascends = ascends & (offsets[i] <= offsets[i + 1]);
    if (ascends) return;
    if (offsets[0] < 0)
        refuse_argument(name, no_value, "offsets[0] = ", offsets[0], ": must not be negative");
    for (std::size_t i = 0; i < count; ++i)
        if (offsets[i] > offsets[i + 1])
            refuse_argument(name, no_value, "offsets[", i + 1, "] = ", offsets[i + 1],
                            ": must be at least offsets[", i, "] = ", offsets[i]);
    refuse_argument(name, no_value, "was changed while it was read");
}

std::string_view text_at(const std::byte* text, std::size_t size) {
    return {reinterpret_cast<const char*>(text), size};
}

/// The texts of a slice, by their offsets.
template <class Offset>
struct TextsByOffsets {
    const std::byte* texts;
    DenseView<Offset> offsets;
    std::string_view operator()(std::size_t i) const {
        const Offset begin = offsets[i], end = offsets[i + 1];
        if (begin >= end) return "";
        return text_at(texts + begin, static_cast<std::size_t>(end - begin));
    }
};

/// The texts of a slice, by their views. `name`: of the column.
struct TextsByViews {
    const Slice& slice;
    const std::byte* views;
    std::string_view name;
    std::string_view operator()(std::size_t i) const {
        const DenseView<int32_t> view{views + 16 * i};
        const int32_t size = view[0], buffer = view[2], offset = view[3];
        if (size < 0)
            refuse_argument(named(name, "[", i, "]"), no_value, "length = ", size,
                            ": must not be negative");
        if (size <= 12) return text_at(views + 16 * i + 4, static_cast<std::size_t>(size));
        const int64_t buffers = slice.array->n_buffers - 3;
        const auto refuse = [&](bool kept) {
            if (!kept)
                refuse_argument(named(name, "[", i, "]"), no_value,
                                "the view must lie in one of the array's buffers");
        };
        refuse(buffer >= 0 && buffer < buffers && offset >= 0);
        const DenseView<int64_t> sizes{buffer_of(slice, slice.array->n_buffers - 1, name)};
        refuse(sizes[static_cast<std::size_t>(buffer)] >= int64_t{offset} + size);
        return text_at(buffer_of(slice, 2 + buffer, name) + offset, static_cast<std::size_t>(size));
    }
};

/// How the samples lie in memory. Their validity is not in it.
class Reader {
public:
    /// `row`: of the first sample of the array in the whole column.
    Reader(const Column& column, std::size_t row, sab_text_unit unit, Doubts& doubts)
        : name_(column.name), row_(row), unit_(unit), doubts_(doubts) {}

    Chunk read(const ArrowSchema& schema, Slice& slice, const std::shared_ptr<const void>& owner) {
        const Type& type = type_of(schema, name_);
        if (slice.count == 0) return Chunk{};
        if (slice.array->n_buffers < type.buffers)
            refuse_argument(name_, no_value, "n_buffers = ", slice.array->n_buffers,
                            ": must be at least ", type.buffers);
        switch (type.kind) {
            case Kind::numbers: return numbers(slice, type, 1, owner);
            case Kind::list_sizes: {
                Chunk chunk = numbers(slice, type, 2, owner);
                look_at_lists(schema, slice, chunk);
                return chunk;
            }
            case Kind::halves: {
                Chunk chunk = numbers(slice, type, 1, owner);
                chunk.layout = Chunk::Layout::halves;
                chunk.is_integer = false;
                return chunk;
            }
            case Kind::offsets:
                if (type.dtype == SAB_INT32) return lengths<int32_t>(schema, slice, type, owner);
                return lengths<int64_t>(schema, slice, type, owner);
            case Kind::views: {
                const std::byte* const views = buffer_of(slice, 1, name_) + 16 * slice.first;
                const TextsByViews texts{slice, views, name_};
                if (is_read(type)) return read_texts(slice, texts);
                look_at_texts(slice, texts);
                return Chunk::numbers(views, slice.count, SAB_INT32, 16, owner);
            }
            case Kind::fixed: {
                Chunk chunk = constant(slice, fixed_size(schema, type, name_));
                look_at_lists(schema, slice, chunk);
                return chunk;
            }
            case Kind::nulls: break;
        }
        slice.validity = std::make_shared<std::vector<uint8_t>>((slice.count + 7) / 8);
        return constant(slice, 0);
    }

    /// Indices of a dictionary, which must be in range where they are valid. Samples whose element
    /// is a null become null. Elements that no sample has may be no sizes.
    Chunk read_dictionary(const ArrowSchema& schema, Slice& slice,
                          const std::shared_ptr<const void>& owner) {
        if (schema.dictionary->dictionary != nullptr)
            refuse_argument(name_, no_value, "a dictionary of dictionaries has no size");
        const Type& index_type = type_of(schema, name_);
        if (index_type.kind != Kind::numbers || index_type.dtype > SAB_UINT64)
            refuse_argument(name_, no_value, "Arrow format \"", std::string_view(schema.format),
                            "\" of a dictionary's indices: must be an integer");
        if (slice.count == 0) return Chunk{};
        Slice elements = elements_of(slice);
        Chunk values = read(*schema.dictionary, elements, nullptr);
        values.validity = elements.validity;
        const bool is_integer = values.is_integer;
        const Sizes sizes({std::move(values)}, "");
        auto dictionary = std::make_shared<std::vector<double>>(sizes.count());
        sizes.load(0, *dictionary);  // NaN, which a null may have, is refused where it is used

        Chunk chunk = read(schema_of(index_type), slice, owner);
        check_indices(chunk, slice, elements, [&](std::size_t element) {
            double size = 0;
            if (std::isnan((*dictionary)[element])) sizes.read(element, {&size, 1}, "dictionary");
        });
        chunk.layout = Chunk::Layout::indices;
        chunk.is_integer = is_integer;
        chunk.dictionary = std::move(dictionary);
        return chunk;
    }

private:
    static ArrowSchema schema_of(const Type& type) {
        ArrowSchema schema{};
        schema.format = type.format.data();  // ends with a zero, as it is a literal
        return schema;
    }

    /// Whether the texts are read when the handle is made: their words are counted, or their values
    /// are read.
    bool is_read(const Type& type) const {
        if (unit_ == SAB_TEXT_WORDS && type.noun == "value")
            refuse_argument(name_, no_value, type.name, " values have no words; texts have");
        return (unit_ == SAB_TEXT_WORDS || unit_ == SAB_TEXT_VALUE) && type.noun != "list";
    }

    template <class TextOf>
    Chunk read_texts(const Slice& slice, const TextOf& text_of) const {
        DenseBuilder builder(slice.count);
        for (std::size_t i = 0; i < slice.count; ++i) {
            const std::string_view given = is_valid(slice.validity, i) ? text_of(i) : "";
            if (unit_ == SAB_TEXT_WORDS || !is_valid(slice.validity, i)) {
                const int64_t words = words_in(given);
                if (!builder.add(std::span<const int64_t>(&words, 1)))
                    fail(SAB_E_INTERNAL, "words");
                continue;
            }
            const std::optional<double> value = number_in(given);
            if (!value || !builder.add(std::span<const double>(&*value, 1)))
                refuse_argument(named(name_, "[", row_ + i, "]"), Quoted(given.substr(0, 40)),
                                "must be a number from 0 to 2^53");
        }
        const DenseSizes sizes = builder.finish();
        Chunk chunk =
            Chunk::numbers(sizes.data(), sizes.count(), sizes.dtype(),
                           static_cast<std::ptrdiff_t>(dtype_size(sizes.dtype())), sizes.owner());
        return chunk;
    }

    template <class TextOf>
    void look_at_texts(const Slice& slice, const TextOf& text_of) {
        for (std::size_t i = 0; doubts_.about_texts() && i < slice.count; ++i)
            if (is_valid(slice.validity, i)) doubts_.look_at_text(text_of(i));
    }

    /// `chunk`: the lengths of the lists.
    void look_at_lists(const ArrowSchema& schema, const Slice& slice, const Chunk& chunk) {
        const bool has_lists =
            schema.n_children == 1 && schema.children != nullptr && is_list(child_of(schema, 0));
        if (!has_lists && std::string_view(schema.format).starts_with('+'))
            return doubts_.look_at_list(false);
        if (!has_lists || !doubts_.about_lists()) return;
        const Sizes lengths({chunk}, "");
        for (std::size_t i = 0; doubts_.about_lists() && i < slice.count; ++i) {
            double length = 0;
            if (!is_valid(slice.validity, i)) continue;
            lengths.read(i, {&length, 1}, name_);
            doubts_.look_at_list(length == 1);
        }
    }
    static bool is_list(const ArrowSchema& schema) {
        const std::string_view format = schema.format;
        return schema.dictionary == nullptr &&
               (format == "+l" || format == "+L" || format == "+vl" || format == "+vL" ||
                format.starts_with("+w:"));
    }

    Chunk numbers(const Slice& slice, const Type& type, int64_t buffer,
                  const std::shared_ptr<const void>& owner) const {
        const std::size_t item = dtype_size(type.dtype);
        return Chunk::numbers(buffer_of(slice, buffer, name_) + slice.first * item, slice.count,
                              type.dtype, static_cast<std::ptrdiff_t>(item), owner);
    }

    template <class Offset>
    Chunk lengths(const ArrowSchema& schema, const Slice& slice, const Type& type,
                  const std::shared_ptr<const void>& owner) {
        const DenseView<Offset> offsets{buffer_of(slice, 1, name_) + slice.first * sizeof(Offset)};
        check_offsets(offsets, slice.count, name_);
        Chunk chunk = Chunk::differences(offsets.data, slice.count, type.dtype, owner);
        if (type.noun == "list") {
            look_at_lists(schema, slice, chunk);
            return chunk;
        }
        const bool is_empty = slice.array->buffers[2] == nullptr;
        if (is_read(type) && is_empty && offsets[slice.count] > 0) buffer_of(slice, 2, name_);
        const TextsByOffsets<Offset> texts{static_cast<const std::byte*>(slice.array->buffers[2]),
                                           offsets};
        if (is_read(type)) return read_texts(slice, texts);
        if (!is_empty) look_at_texts(slice, texts);
        return chunk;
    }

    static Chunk constant(const Slice& slice, std::size_t size) {
        Chunk chunk;
        chunk.layout = Chunk::Layout::constant;
        chunk.count = slice.count;
        chunk.constant = static_cast<double>(size);
        return chunk;
    }

    Slice elements_of(const Slice& slice) const {
        const ArrowArray* const array = slice.array->dictionary;
        const std::string name = text(name_, ", dictionary");
        check_array(array, name);
        Slice elements{array, static_cast<std::size_t>(array->offset),
                       static_cast<std::size_t>(array->length), nullptr};
        check(elements.count <= largest_sample_count, text(name, ": length"), elements.count,
              "must be at most ", largest_sample_count);
        add_bitmap(elements);
        return elements;
    }

    /// Calls `check_element` for each element that is used and no null.
    template <class CheckElement>
    void check_indices(const Chunk& chunk, Slice& slice, const Slice& elements,
                       CheckElement&& check_element) const {
        Chunk indices = chunk;
        indices.validity = slice.validity;
        std::shared_ptr<std::vector<uint8_t>> narrowed;
        Sizes({std::move(indices)}, "").dense("dictionary indices").visit([&](auto view) {
            for (std::size_t i = 0; i < slice.count; ++i) {
                if (!is_valid(slice.validity, i)) continue;
                const auto index = static_cast<double>(view[i]);
                if (!(index >= 0 && index < static_cast<double>(elements.count)))
                    refuse_argument(name_, no_value, "dictionary indices[", i, "] = ", view[i],
                                    ": must be from 0 to below the elements of the dictionary, ",
                                    elements.count);
                const auto element = static_cast<std::size_t>(index);
                if (is_valid(elements.validity, element)) {
                    check_element(element);
                    continue;
                }
                if (narrowed == nullptr)
                    narrowed = slice.validity != nullptr
                                   ? std::make_shared<std::vector<uint8_t>>(*slice.validity)
                                   : std::make_shared<std::vector<uint8_t>>((slice.count + 7) / 8,
                                                                            uint8_t{255});
                (*narrowed)[i / 8] &= static_cast<uint8_t>(~(1u << (i % 8)));
            }
        });
        if (narrowed != nullptr) slice.validity = std::move(narrowed);
    }

    const std::string& name_;
    std::size_t row_;
    sab_text_unit unit_;
    Doubts& doubts_;
};

/// `row`: of the first sample of this array in the whole column.
Chunk read_chunk(const ArrowArray& array, const Column& column, std::size_t row,
                 const sab_sizes_arrow_options& options, Doubts& doubts,
                 const std::shared_ptr<const void>& owner) {
    Slice slice = find_slice(array, column);
    Reader reader(column, row, options.text_unit, doubts);
    Chunk chunk = column.schema->dictionary == nullptr
                      ? reader.read(*column.schema, slice, owner)
                      : reader.read_dictionary(*column.schema, slice, owner);
    for (std::size_t i = 0;
         options.nulls == SAB_NULLS_REFUSE && slice.validity != nullptr && i < slice.count; ++i)
        if (!is_valid(slice.validity, i))
            refuse_argument(named(column.name, "[", row + i, "]"), no_value,
                            "is null; options.nulls = SAB_NULLS_ZERO counts nulls as 0");
    chunk.validity = slice.validity;
    return chunk;
}

std::string description_of(const Column& column, const char* given, std::size_t count,
                           const sab_sizes_arrow_options& options) {
    const bool is_dictionary = column.schema->dictionary != nullptr;
    const Type& type =
        type_of(is_dictionary ? *column.schema->dictionary : *column.schema, column.name);
    const bool has_words = options.text_unit == SAB_TEXT_WORDS && type.noun == "text";
    const bool has_values =
        options.text_unit == SAB_TEXT_VALUE && (type.noun == "text" || type.noun == "value");
    return text("Arrow ", is_dictionary ? "dictionary of " : "", type.name,
                given == nullptr ? "" : text(" column \"", given, "\""), ": ",
                has_words    ? "words of "
                : has_values ? "values of "
                             : "",
                counted(count, type.noun));
}

void check_options(const sab_sizes_arrow_options& options) {
    check_null_rule(options.nulls);
    check_text_unit(options.text_unit);
}

/// Runs a function of a stream, which gives 0 or an errno.
template <class Call>
void call_stream(ArrowArrayStream& stream, Call&& call) {
    const int32_t code = called_back("the Arrow stream", call);
    if (code == 0) return;
    const char* why = stream.get_last_error == nullptr ? nullptr : stream.get_last_error(&stream);
    throw Error(SAB_E_CALLBACK,
                text("the Arrow stream failed with code ", code, why == nullptr ? "" : ": ",
                     why == nullptr ? "" : why),
                code);
}

/// An array of a stream. The stream is released after its arrays.
struct StreamedArray {
    std::shared_ptr<const void> stream;
    Owned<ArrowArray> array;
};

}  // namespace

Sizes read_arrow(const ArrowArray& array, const ArrowSchema& schema, const char* column,
                 const sab_sizes_arrow_options& options, const std::shared_ptr<const void>& owner) {
    check_options(options);
    const Column found = find_column(schema, column);
    Doubts doubts(options.text_unit);
    std::vector<Chunk> chunks{read_chunk(array, found, 0, options, doubts, owner)};
    doubts.settle(found.name);
    const std::size_t count = chunks[0].count;
    return Sizes(std::move(chunks), description_of(found, column, count, options));
}

Sizes read_arrow_stream(ArrowArrayStream& stream, const char* column,
                        const sab_sizes_arrow_options& options,
                        const std::shared_ptr<const void>& owner) {
    check_options(options);
    if (stream.release == nullptr) refuse_argument("stream", no_value, "was released already");
    require(reinterpret_cast<const void*>(stream.get_schema), "stream.get_schema");
    require(reinterpret_cast<const void*>(stream.get_next), "stream.get_next");
    Owned<ArrowSchema> schema;
    call_stream(stream, [&] { return stream.get_schema(&stream, &schema.value); });
    const Column found = find_column(schema.value, column);
    std::vector<Chunk> chunks;
    Doubts doubts(options.text_unit);
    std::size_t count = 0;
    for (;;) {
        auto streamed = std::make_shared<StreamedArray>();
        streamed->stream = owner;
        ArrowArray& array = streamed->array.value;
        call_stream(stream, [&] { return stream.get_next(&stream, &array); });
        if (array.release == nullptr) break;
        chunks.push_back(read_chunk(array, found, count, options, doubts, std::move(streamed)));
        count += chunks.back().count;
        check(count <= largest_sample_count, text(found.name, ": length"), count,
              "must be at most ", largest_sample_count);
    }
    doubts.settle(found.name);
    return Sizes(std::move(chunks), description_of(found, column, count, options));
}

}  // namespace sab
