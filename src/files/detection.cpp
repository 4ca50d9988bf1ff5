#include "files/detection.h"

#include <algorithm>

#include "files/indexes.h"
#include "sizes/texts.h"

namespace sab {
namespace {

struct Named {
    std::string_view name;
    Format format;
};
constexpr Named formats[] = {{"npy", Format::npy},          {"megatron", Format::megatron},
                             {"fairseq", Format::fairseq},  {"datatrove", Format::datatrove},
                             {"jsonl", Format::json_lines}, {"numbers", Format::numbers},
                             {"text", Format::text},        {"kaldi", Format::kaldi},
                             {"fasta", Format::fasta}};

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
    fail_named(SAB_E_FORMAT, text("\"", name, "\""), " ", "is ", why...);
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
}

/// Whether the first line that is not empty is a number. A later one that is none is an error then,
/// so that a damaged file of numbers is not read as text.
bool begins_with_number(std::string_view head) {
    const std::string_view begin = trimmed(head);
    return !begin.empty() && is_number(trimmed(begin.substr(0, begin.find('\n'))));
}

/// Whether a text goes on as JSON does behind `bracket`. "[1] Smith" is a text.
bool begins_with_json(std::string_view text, char bracket) {
    if (!text.starts_with(bracket)) return false;
    std::string_view rest = trimmed(text.substr(1));
    if (bracket == '{') return rest.starts_with('"') || rest.starts_with('}');
    if (rest.starts_with('{') || rest.starts_with('[') || rest.starts_with('"')) return true;
    const std::size_t end = rest.find_first_of(",]");
    if (end == rest.npos) return false;
    const std::string_view item = trimmed(rest.substr(0, end));
    const std::string_view behind = rest.substr(end + 1);
    if (rest[end] == ',') return is_number(item);
    return (item.empty() || is_number(item)) &&
           trimmed(behind.substr(0, behind.find('\n'))).empty();
}

/// Whether it is a file of Kaldi or ESPnet with a name and a number on each line, or a part of one.
bool is_of_kaldi(std::string_view name) {
    const std::string_view own = name.substr(name.find_last_of("/\\") + 1);
    for (const std::string_view kind :
         {"utt2dur", "utt2num_frames", "reco2dur", "reco2num_frames", "speech_shape", "text_shape"})
        if (own.starts_with(kind) && (own.size() == kind.size() || own[kind.size()] == '.'))
            return true;
    return false;
}

/// Refuses numbers that would be read as texts: with a name before each, or with a header.
void refuse_numbers(std::string_view head, std::string_view name) {
    const bool is_cut = head.size() >= Lines::head_size;
    std::size_t lines = 0, named = 0, numbers = 0;
    while (!head.empty() && named + numbers + 1 >= lines) {
        const std::size_t end = head.find('\n');
        if (end == head.npos && is_cut) break;
        const std::string_view line = trimmed(head.substr(0, end));
        head.remove_prefix(end == head.npos ? head.size() : end + 1);
        ++lines;
        named += named_number(line) ? 1 : 0;
        numbers += number_in(line) ? 1 : 0;
    }
    if (lines >= 2 && named == lines)
        refuse(name,
               "ambiguous: each line has a name and a number; format \"kaldi\" reads the numbers, "
               "format \"text\" the lines");
    if (lines >= 3 && numbers + 1 == lines)
        refuse(name,
               "a table, by its lines: all but the first are numbers; remove the first line, "
               "or name the file .csv; format \"text\" reads the lines");
}

/// Whether the text is JSON lines, by its first line. Throws SAB_E_FORMAT for other JSON.
bool begins_with_json_line(std::string_view head, std::string_view name) {
    constexpr std::string_view one_a_line =
        ": JSON lines have one whole object on each line; format \"text\" reads lines of text";
    const std::string_view begin = trimmed(head);
    if (begins_with_json(begin, '[')) refuse(name, "a JSON array, by its beginning", one_a_line);
    if (!begins_with_json(begin, '{')) return false;
    const std::size_t end = begin.find('\n');
    const bool is_cut = end == begin.npos && head.size() >= Lines::head_size;
    if (is_cut || trimmed(begin.substr(0, end)).ends_with('}')) return true;
    refuse(name, "JSON whose first line does not end its object", one_a_line);
}

/// Whether lines of sequences follow those that begin with ">". A quotation is no FASTA.
bool begins_with_record(std::string_view head) {
    if (!head.starts_with('>')) return false;
    bool has_sequence = false;
    const bool is_cut = head.size() >= Lines::head_size;
    while (!head.empty()) {
        const std::size_t end = head.find('\n');
        if (end == head.npos && is_cut) break;
        const std::string_view line = trimmed(head.substr(0, end));
        head.remove_prefix(end == head.npos ? head.size() : end + 1);
        if (line.empty() || line.starts_with('>')) continue;
        has_sequence = true;
        const bool is_sequence = std::ranges::all_of(line, [](char c) {
            return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '*' || c == '-' ||
                   c == '.';
        });
        if (!is_sequence) return false;
    }
    return has_sequence || is_cut;
}

}  // namespace

Format format_named(std::string_view name) {
    std::string names;
    for (const auto& [known, format] : formats) {
        if (known == name) return format;
        names += text(names.empty() ? "" : ", ", known);
    }
    refuse_argument("options.format", Quoted(name), "must be one of ", names);
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
    if (begins_with_record(head)) return Format::fasta;
    if (begins_with_json_line(head, input.name())) return Format::json_lines;
    for (const std::string_view ending : {".jsonl", ".ndjson", ".json"})
        if (plain.ends_with(ending)) return Format::json_lines;
    for (const std::string_view ending : {".fasta", ".fa", ".faa", ".fna"})
        if (plain.ends_with(ending)) return Format::fasta;
    if (is_of_kaldi(plain)) return Format::kaldi;
    if (begins_with_number(head)) return Format::numbers;
    refuse_numbers(head, input.name());
    return Format::text;
}

}  // namespace sab
