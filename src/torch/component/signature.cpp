#include "torch/component/signature.h"

#include <charconv>

#include "torch/component/internal.h"

namespace sab_torch {

static std::string_view without_blanks(std::string_view text) {
    constexpr char blanks[] = " \t\r\n\f\v";
    const std::size_t first = text.find_first_not_of(blanks);
    return first == text.npos ? std::string_view()
                              : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::vector<std::string> split_names(std::string_view text) {
    std::vector<std::string> names;
    for (bool is_last = false; !is_last;) {
        const std::size_t comma = text.find(',');
        is_last = comma == text.npos;
        names.emplace_back(without_blanks(text.substr(0, comma)));
        if (!is_last) text.remove_prefix(comma + 1);
    }
    return names;
}

Signature parse_signature(const std::string& text, const std::string& what) {
    const auto refuse = [&](const std::string& rule) {
        sab::refuse_argument(what, sab::Quoted{text}, rule);
    };
    if (text.size() < 2 || text.front() != '(' || text.back() != ')')
        refuse("must stand in parentheses, such as \"(B, L_length, 3)\"");
    Signature signature{text, {}, {}, 0};
    std::size_t batches = 0;
    std::vector<std::string> words = split_names(std::string_view(text).substr(1, text.size() - 2));
    if (words.size() > 1 && words.back().empty()) words.pop_back();  // "(B,)"
    for (const std::string& word : words) {
        Dimension dimension{Dimension::any, "", 0};
        if (word == "B") {
            dimension.kind = Dimension::batch;
            signature.batch_dim = signature.dimensions.size();
            ++batches;
        } else if (word.size() > 2 && word.compare(0, 2, "L_") == 0) {
            dimension.kind = Dimension::length;
            dimension.name = word.substr(2);
        } else if (word == "M" || (word.size() > 2 && word.compare(0, 2, "M_") == 0)) {
            dimension.name = word.size() > 2 ? word.substr(2) : "";
        } else {
            dimension.kind = Dimension::number;
            const auto [end, error] =
                std::from_chars(word.data(), word.data() + word.size(), dimension.size);
            if (word.empty() || error != std::errc() || end != word.data() + word.size() ||
                dimension.size < 0)
                refuse("\"" + word + "\" must be B, L_ and a name, M, M_ and a name, or a number");
        }
        signature.dimensions.push_back(dimension);
        if (dimension.kind != Dimension::batch) signature.own.push_back(dimension);
    }
    if (batches != 1) refuse("must have B exactly once");
    if (signature.own.size() > 16) refuse("has more than 16 dimensions beside B");
    return signature;
}

}  // namespace sab_torch
