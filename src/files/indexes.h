#pragma once
/// The indexes of Megatron, fairseq and datatrove. Lengths are used where they lie; all are checked
/// when a file is opened.

#include "files/input.h"
#include "sizes/sizes.h"

namespace sab {

enum class IndexKind : uint8_t { megatron, fairseq };
inline constexpr std::string_view mapped_index_magic{"MMIDIDX\0\0", 9};
inline constexpr std::string_view legacy_index_magic{"TNTIDX\0\0", 8};

/// Of an index with the magic of both: fairseq's if the size of the file is that of one.
IndexKind index_kind(std::span<const std::byte> image);

Sizes read_megatron(Input& input);
Sizes read_fairseq(Input& input);  // of both kinds
Sizes read_datatrove(Input& input);

}  // namespace sab
