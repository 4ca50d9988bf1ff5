#include "files/sizes_file.h"

#include "files/detection.h"
#include "files/indexes.h"
#include "files/npy.h"

namespace sab {
namespace {

/// Refuses what the format does not have. A number on a line is also its value.
void check_used(Format format, const sab_sizes_file_options& options) {
    if (format != Format::json_lines && format != Format::text)
        check(options.text_unit == SAB_TEXT_BYTES || options.text_unit == SAB_TEXT_VALUE,
              "options.text_unit",
              options.text_unit == SAB_TEXT_WORDS ? "SAB_TEXT_WORDS" : "SAB_TEXT_ALL_BYTES",
              "goes with texts and JSON lines only, and the file is not read as such");
    constexpr const char* rule = "goes with JSON lines only, and the file is not read as such";
    if (format == Format::json_lines) return;
    check(options.missing == SAB_MISSING_REFUSE, "options.missing", "SAB_MISSING_SKIP", rule);
    check(options.nulls == SAB_NULLS_REFUSE, "options.nulls", "SAB_NULLS_ZERO", rule);
}

void check_options(const sab_sizes_file_options& options) {
    check_text_unit(options.text_unit);
    check(options.missing == SAB_MISSING_REFUSE || options.missing == SAB_MISSING_SKIP,
          "options.missing", options.missing,
          "must be SAB_MISSING_REFUSE (0) or SAB_MISSING_SKIP (1)");
    check(options.copy == 0 || options.copy == 1, "options.copy", options.copy, "must be 0 or 1");
    check_null_rule(options.nulls);
    if (options.format != nullptr) check_used(format_named(options.format), options);
}

Sizes read_as(Format format, Input& input, Lines& lines, const sab_sizes_file_options& options) {
    switch (format) {
        case Format::npy: return read_npy(input);
        case Format::megatron: return read_megatron(input);
        case Format::fairseq: return read_fairseq(input);
        case Format::datatrove: return read_datatrove(input);
        case Format::json_lines: return read_json_lines(lines, options);
        case Format::numbers: return read_numbers(lines);
        case Format::text: return read_text(lines, options.text_unit);
        case Format::kaldi: return read_kaldi(lines);
        default: return read_fasta(lines);
    }
}

}  // namespace

Sizes read_sizes_file(const char* path, const sab_sizes_file_options& options) {
    check_options(options);
    Input input(path, Progress(options.progress, options.progress_ctx), options.copy == 1);
    Lines lines(input);
    const Format format =
        options.format != nullptr ? format_named(options.format) : detect(input, lines);
    if (!is_text(format) && lines.compression() != Compression::none)
        fail_named(SAB_E_FORMAT, text("\"", path, "\""), " ",
                   "is compressed: only text formats are read so; unpack it");
    if (format != Format::json_lines && options.column != nullptr)
        refuse_argument("options.column", Quoted(options.column), "\"", path,
                        "\" is not read as JSON lines, and has no columns");
    check_used(format, options);
    return read_as(format, input, lines, options);
}

}  // namespace sab
