/// The .npy format, versions 1.0 to 3.0: NumPy Enhancement Proposal 1 and numpy.lib.format.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "files/npy.h"

namespace sab {
namespace {

struct Header {
    sab_dtype dtype;
    std::size_t count;
    std::size_t data_offset;
};

/// What follows `'key':` in the header's Python dictionary, which NumPy writes in one fixed style.
std::string_view value_of(std::string_view header, std::string_view key, std::string_view name) {
    for (const char quote : {'\'', '"'}) {
        const std::string quoted =
            text(std::string_view(&quote, 1), key, std::string_view(&quote, 1));
        std::size_t at = header.find(quoted);
        if (at == std::string_view::npos) continue;
        at = header.find_first_not_of(" \t", at + quoted.size());
        if (at == std::string_view::npos || header[at] != ':') continue;
        at = header.find_first_not_of(" \t", at + 1);
        if (at != std::string_view::npos) return header.substr(at);
    }
    fail_format(name, "the .npy header has no '", key, "'");
}

sab_dtype parse_dtype(std::string_view value, std::string_view name) {
    const char quote = value.empty() ? ' ' : value[0];
    const std::size_t end = value.find(quote, 1);
    if ((quote != '\'' && quote != '"') || end == std::string_view::npos)
        fail_format(name, "the .npy file must hold one plain number type");
    const std::string_view type = value.substr(1, end - 1);
    if (!type.empty() && type[0] == '>')
        fail_format(name, "dtype ", type,
                    " is big-endian; save it with sizes.astype(sizes.dtype.newbyteorder('<'))");
    struct Known {
        std::string_view name;
        sab_dtype dtype;
    };
    static constexpr Known known[] = {{"i1", SAB_INT8},   {"i2", SAB_INT16},  {"i4", SAB_INT32},
                                      {"i8", SAB_INT64},  {"u1", SAB_UINT8},  {"u2", SAB_UINT16},
                                      {"u4", SAB_UINT32}, {"u8", SAB_UINT64}, {"f4", SAB_FLOAT32},
                                      {"f8", SAB_FLOAT64}};
    if (type.size() == 3 && (type[0] == '<' || (type[0] == '|' && type[2] == '1')))
        for (const auto& [known_name, dtype] : known)
            if (type.substr(1) == known_name) return dtype;
    fail_format(name, "dtype ", type,
                " is not one of the integers of 1 to 8 bytes, float32, float64");
}

std::size_t parse_shape(std::string_view value, std::string_view name) {
    const std::size_t close = value.find(')');
    const auto refuse = [&] {
        fail_format(name, "the .npy file has shape ",
                    value.substr(0, std::min(close, value.size() - 1) + 1),
                    ": must have one dimension");
    };
    if (value.empty() || value[0] != '(' || close == std::string_view::npos) refuse();
    std::string_view inside = value.substr(1, close - 1);
    while (!inside.empty() && (inside.back() == ' ' || inside.back() == ','))
        inside.remove_suffix(1);
    while (!inside.empty() && inside.front() == ' ') inside.remove_prefix(1);
    std::size_t count = 0;
    const auto [end, error] = std::from_chars(inside.data(), inside.data() + inside.size(), count);
    if (error != std::errc{} || end != inside.data() + inside.size()) refuse();
    return count;
}

Header parse(std::span<const std::byte> file, std::string_view name) {
    const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
    if (!bytes.starts_with("\x93NUMPY")) fail_format(name, "is not a .npy file");
    const auto byte = [&](std::size_t i) {
        return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i]));
    };
    if (bytes.size() < 12) fail_format(name, "the .npy file ends inside its header");
    const std::size_t version = byte(6);
    if (version < 1 || version > 3)
        fail_format(name, ".npy format ", version, " is not known (1 to 3 are)");
    const std::size_t length =
        byte(8) + (byte(9) << 8) + (version == 1 ? 0 : (byte(10) << 16) + (byte(11) << 24));
    const std::size_t start = version == 1 ? 10 : 12;
    if (bytes.size() - start < length) fail_format(name, "the .npy file ends inside its header");
    // a copy: a mapped file might change meanwhile
    const std::string header(bytes.substr(start, length));
    return {parse_dtype(value_of(header, "descr", name), name),
            parse_shape(value_of(header, "shape", name), name), start + length};
}

Header header_of(std::span<const std::byte> image, std::string_view name) {
    const Header header = parse(image, name);
    const std::size_t item = dtype_size(header.dtype);
    const std::size_t room = (image.size() - header.data_offset) / item;
    if (header.count > room)
        fail_format(name, "the .npy file is truncated: ", header.count, " sizes are promised, ",
                    room, " are there");
    return header;
}

}  // namespace

Sizes read_npy(Input& input) {
    std::shared_ptr<const std::span<const std::byte>> file = input.image();
    const std::span<const std::byte> image = *file;
    const Header header = header_of(image, text("\"", input.name(), "\""));
    std::vector<Chunk> chunks{
        Chunk::numbers(image.data() + header.data_offset, header.count, header.dtype,
                       static_cast<std::ptrdiff_t>(dtype_size(header.dtype)), std::move(file))};
    return Sizes(std::move(chunks), text("NumPy .npy: ", counted(header.count, "size")));
}

}  // namespace sab
