#include "files/detection.h"

#include <algorithm>

#include "files/indexes.h"

namespace sab {
namespace {

struct Named {
    std::string_view name;
    Format format;
};
constexpr Named formats[] = {{"npy", Format::npy},          {"megatron", Format::megatron},
                             {"fairseq", Format::fairseq},  {"datatrove", Format::datatrove},
                             {"jsonl", Format::json_lines}, {"numbers", Format::numbers},
                             {"text", Format::text},        {"fasta", Format::fasta}};

/// Formats that are refused, by their first bytes.
struct Refused {
    std::string_view magic;
    std::string_view what;
};
constexpr std::string_view by_python =
    ": read it in Python, which reads it through Arrow (pip install pyarrow)";
constexpr Refused parquet{"PAR1", "a Parquet file"}, arrow_file{"ARROW1", "an Arrow IPC file"},
    arrow_stream{"\xFF\xFF\xFF\xFF", "an Arrow IPC stream"};
constexpr Refused unpacked[] = {{"PK\x03\x04", "a zip archive, such as .npz"},
                                {"PK\x05\x06", "an empty zip archive"},
                                {"BZh", "compressed by bzip2"},
                                {{"\xFD"
                                  "7zXZ\0",
                                  6},
                                 "compressed by xz"}};

[[noreturn]] void refuse(std::string_view name, const auto&... why) {
    fail(SAB_E_FORMAT, "\"", name, "\" is ", why...);
}

/// The name in small letters, without the ending of a compressed file.
std::string plain_name(std::string_view name) {
    std::string plain(name);
    std::ranges::transform(plain, plain.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    for (const std::string_view ending : {".gz", ".zst"})
        if (plain.ends_with(ending)) plain.resize(plain.size() - ending.size());
    return plain;
}

void refuse_others(std::string_view head, std::string_view name, std::string_view plain) {
    for (const auto& [magic, what] : {parquet, arrow_file, arrow_stream})
        if (head.starts_with(magic)) refuse(name, what, by_python);
    for (const auto& [magic, what] : unpacked)
        if (head.starts_with(magic)) refuse(name, what, ": unpack it first");
    for (const std::string_view ending : {".csv", ".tsv"})
        if (plain.ends_with(ending)) refuse(name, "a table, by its name", by_python);
    if (plain.ends_with(".json") && trimmed(head).starts_with('['))
        refuse(name, "a JSON array: write its items to lines of their own (JSON lines)");
}

/// Whether the first line that is not empty is a number. A later one that is none is an error then,
/// so that a damaged file of numbers is not read as text.
bool begins_with_number(std::string_view head) {
    const std::string_view begin = trimmed(head);
    return !begin.empty() && is_number(trimmed(begin.substr(0, begin.find('\n'))));
}

bool begins_with_object(std::string_view head) {
    const std::string_view begin = trimmed(head);
    if (!begin.starts_with('{')) return false;
    const std::size_t end = begin.find('\n');
    // a line that goes on behind the head is no usual text
    return end == begin.npos ? begin.ends_with('}') || begin.size() > 4096
                             : trimmed(begin.substr(0, end)).ends_with('}');
}

}  // namespace

Format format_named(std::string_view name) {
    std::string names;
    for (const auto& [known, format] : formats) {
        if (known == name) return format;
        names += text(names.empty() ? "" : ", ", known);
    }
    fail(SAB_E_ARGUMENT, "options.format = \"", name, "\": must be one of ", names);
}

Format detect(Input& input, Lines& lines) {
    const std::string plain = plain_name(input.name());
    if (lines.compression() == Compression::none) {
        // It has no first bytes of its own, and may begin with those of another format.
        if (plain.ends_with(".ds.index")) return Format::datatrove;
        char bytes[16];
        const std::string_view begin(bytes, input.read(0, bytes, sizeof bytes));
        if (begin.starts_with("\x93NUMPY")) return Format::npy;
        if (begin.starts_with(legacy_index_magic)) return Format::fairseq;
        if (begin.starts_with(mapped_index_magic))
            return index_kind(*input.image()) == IndexKind::fairseq ? Format::fairseq
                                                                    : Format::megatron;
        refuse_others(begin, input.name(), plain);
        if (plain.ends_with(".npy")) return Format::npy;
        if (plain.ends_with(".idx")) return Format::megatron;
    }
    const std::string_view head = lines.head();
    refuse_others(head, input.name(), plain);
    if (head.starts_with('>')) return Format::fasta;
    for (const std::string_view ending : {".jsonl", ".ndjson", ".json"})
        if (plain.ends_with(ending)) return Format::json_lines;
    for (const std::string_view ending : {".fasta", ".fa", ".faa", ".fna"})
        if (plain.ends_with(ending)) return Format::fasta;
    if (begins_with_object(head)) return Format::json_lines;
    return begins_with_number(head) ? Format::numbers : Format::text;
}

}  // namespace sab
