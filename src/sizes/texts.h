#pragma once
/// Texts and lists that may be something else than what they are measured as.

#include <optional>
#include <string>
#include <string_view>

#include "sab/sizes.h"

namespace sab {

/// The number that a text is, such as "3.25", " 7" or "1e3"; NaN and infinity, too.
std::optional<double> number_in(std::string_view text);

/// What all samples of a source have in common. They are looked at only until one differs. Texts
/// are numbers if all that are not empty are, and a single one beside empty texts is none.
class Doubts {
public:
    explicit Doubts(sab_text_unit unit) : doubts_texts_(unit == SAB_TEXT_BYTES) {}
    /// Whether texts and lists need to be looked at any more.
    bool about_texts() const { return doubts_texts_; }
    bool about_lists() const { return doubts_lists_; }
    void look_at_text(std::string_view text);
    /// `holds_one_list`: and nothing else.
    void look_at_list(bool holds_one_list);
    /// Throws SAB_E_ARGUMENT if all texts were numbers, or all lists held one list. `of`: the
    /// source.
    void settle(std::string_view of) const;

private:
    bool doubts_texts_, doubts_lists_ = true;
    bool has_list_ = false, has_empty_ = false;
    std::size_t numbers_ = 0;
    std::string number_{};  ///< the first text that is one
};

}  // namespace sab
