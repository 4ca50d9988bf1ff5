#pragma once
/// The core's one exception type, and the text it carries.

#include <concepts>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "sab/base.h"

namespace sab {

/// A part of a message: text or a number. Messages are everywhere and failures rare, so a caller
/// only notes its parts, in few instructions, and text is made of them out of line.
class TextPart {
public:
    TextPart(std::string_view text) : kind_(Kind::text), text_(text) {}
    TextPart(const std::string& text) : TextPart(std::string_view(text)) {}
    TextPart(const char* text) : TextPart(std::string_view(text)) {}
    TextPart(float number) : kind_(Kind::float32), float32_(number) {}
    TextPart(double number) : kind_(Kind::float64), float64_(number) {}
    template <std::integral Number>
        requires(!std::same_as<Number, bool>)
    TextPart(Number number)
        : kind_(std::signed_integral<Number> ? Kind::whole : Kind::natural),
          natural_(static_cast<uint64_t>(number)) {}

    /// Numbers are written by to_chars: shortest exact form, whatever the locale says.
    void append_to(std::string& out) const;

private:
    enum class Kind { text, whole, natural, float32, float64 } kind_;
    union {
        std::string_view text_;
        uint64_t natural_;  // a whole number as its bits
        float float32_;
        double float64_;
    };
};

std::string joined(std::initializer_list<TextPart> parts);

template <class... Parts>
std::string text(const Parts&... parts) {
    return joined({TextPart(parts)...});
}

/// A failure on its way to the C ABI: status, message, and the caller's own code when a callback
/// failed.
class Error : public std::exception {
public:
    Error(sab_status status, std::string message, int32_t callback_code = 0)
        : status_(status), callback_code_(callback_code), message_(std::move(message)) {}
    sab_status status() const { return status_; }
    int32_t callback_code() const { return callback_code_; }
    const char* what() const noexcept override { return message_.c_str(); }

private:
    sab_status status_;
    int32_t callback_code_;
    std::string message_;
};

[[noreturn, gnu::cold]] void fail_with(sab_status status, std::initializer_list<TextPart> parts);

template <class... Parts>
[[noreturn]] void fail(sab_status status, const Parts&... parts) {
    fail_with(status, {TextPart(parts)...});
}

/// Says "name = value: rule" with SAB_E_ARGUMENT unless the rule is kept.
template <class Value, class... Rule>
void check(bool kept, std::string_view name, const Value& value, const Rule&... rule) {
    if (!kept) fail(SAB_E_ARGUMENT, name, " = ", value, ": ", rule...);
}

inline void require(const void* pointer, std::string_view name) {
    if (pointer == nullptr) fail(SAB_E_ARGUMENT, name, " = NULL: must be given");
}

}  // namespace sab
