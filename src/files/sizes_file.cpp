#include "files/sizes_file.h"

#include "files/detection.h"
#include "files/indexes.h"
#include "files/npy.h"

namespace sab {
namespace {

void check_options(const sab_sizes_file_options& options) {
    check_text_unit(options.text_unit);
    check(options.missing == SAB_MISSING_REFUSE || options.missing == SAB_MISSING_SKIP,
          "options.missing", options.missing,
          "must be SAB_MISSING_REFUSE (0) or SAB_MISSING_SKIP (1)");
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
        default: return read_fasta(lines);
    }
}

}  // namespace

Sizes read_sizes_file(const char* path, const sab_sizes_file_options& options) {
    check_options(options);
    const auto named =
        options.format != nullptr ? std::optional(format_named(options.format)) : std::nullopt;
    Input input(path, Progress(options.progress, options.progress_ctx));
    Lines lines(input);
    const Format format = named ? *named : detect(input, lines);
    if (!is_text(format) && lines.compression() != Compression::none)
        fail(SAB_E_FORMAT, "\"", path,
             "\" is compressed: only text formats are read so; unpack it");
    if (format != Format::json_lines && options.column != nullptr)
        fail(SAB_E_ARGUMENT, "options.column = \"", options.column, "\": \"", path,
             "\" is not read as JSON lines, and has no columns");
    return read_as(format, input, lines, options);
}

}  // namespace sab
