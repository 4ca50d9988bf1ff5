#include "sizes/texts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <locale>
#include <sstream>

#include "base/error.h"
#include "sizes/sizes.h"

namespace sab {
namespace {

constexpr std::size_t longest_number = 64;

std::string_view without_spaces(std::string_view text) {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    return text;
}

/// NaN and infinity, as programs write missing and endless values.
std::optional<double> special_number(std::string_view text) {
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    std::string lower(text);
    std::ranges::transform(lower, lower.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (lower == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (lower == "inf" || lower == "infinity") return std::numeric_limits<double>::infinity();
    return std::nullopt;
}

}  // namespace

std::optional<double> number_in(std::string_view text) {
    text = without_spaces(text);
    if (text.empty() || text.size() > longest_number) return std::nullopt;
    if (text.find_first_of("0123456789") == text.npos) return special_number(text);
    if (text.find_first_not_of("+-.eE0123456789") != text.npos) return std::nullopt;
    std::istringstream in{std::string(text)};
    in.imbue(std::locale::classic());  // the decimal point of the process may be a comma
    in.exceptions(std::ios::badbit);   // for a lack of memory
    double number = 0;
    in >> number;
    const bool is_large = std::abs(number) == std::numeric_limits<double>::max();
    if (in.fail() && is_large)
        return std::copysign(std::numeric_limits<double>::infinity(), number);
    if (in.fail() || in.peek() != std::istringstream::traits_type::eof()) return std::nullopt;
    return number;
}

void Doubts::look_at_text(std::string_view text) {
    if (!doubts_texts_) return;
    if (without_spaces(text).empty()) {  // a missing value
        has_empty_ = true;
        return;
    }
    doubts_texts_ = number_in(text).has_value();
    if (doubts_texts_ && numbers_++ == 0) number_ = text;
}

void Doubts::look_at_list(bool holds_one_list) {
    doubts_lists_ = doubts_lists_ && holds_one_list;
    has_list_ = true;
}

void Doubts::settle(std::string_view of) const {
    if (doubts_texts_ && numbers_ >= (has_empty_ ? 2 : 1))
        refuse_argument(
            "options.text_unit", "SAB_TEXT_BYTES", "all texts of ", of, " are numbers, such as \"",
            std::string_view(number_),
            "\": SAB_TEXT_VALUE reads them as numbers, SAB_TEXT_ALL_BYTES counts their bytes");
    if (doubts_lists_ && has_list_)
        refuse_argument(
            of, no_value,
            "each list holds a single list, of the shape (1, length): must be lists of values");
}

}  // namespace sab
