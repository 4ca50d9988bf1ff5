#pragma once
/// Which format a file has.

#include <optional>
#include <string_view>

#include "files/lines.h"

namespace sab {

enum class Format : uint8_t {
    npy,
    megatron,
    fairseq,
    datatrove,
    json_lines,
    numbers,
    text,
    kaldi,
    fasta
};

/// By options.format; throws SAB_E_ARGUMENT for an unknown name.
Format format_named(std::string_view name);
/// By the content, then by the name. Throws SAB_E_FORMAT for what is known but not read here, and
/// for what is binary and not known.
Format detect(Input& input, Lines& lines);

inline bool is_text(Format format) {
    return format >= Format::json_lines;
}

}  // namespace sab
