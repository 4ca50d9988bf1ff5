#pragma once
/// What the dimensions of stacked samples mean: "(B, L_residue, 3, M_hidden)".

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sab_torch {

struct Dimension {
    enum Kind { batch, length, number, any } kind;
    std::string name;  // of a length or of any size; may be empty for the latter
    int64_t size;      // of a number
};

struct Signature {
    std::string text;
    std::vector<Dimension> dimensions;  // all
    std::vector<Dimension> own;         // a sample's: without the batch
    std::size_t batch_dim;
};

/// Refuses a text by the name `what`.
Signature parse_signature(const std::string& text, const std::string& what);

/// "a, b" as {"a", "b"}.
std::vector<std::string> split_names(std::string_view text);

}  // namespace sab_torch
