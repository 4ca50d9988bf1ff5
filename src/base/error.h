#pragma once
/// The core's one exception type, and the texts it carries.

#include <array>
#include <concepts>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <span>
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

/// What programs read of a failure, beside its message. Each is empty where the failure has none.
struct ErrorParts {
    std::string argument;  ///< as a path of names: "options.budgets[0].limit"
    std::string value;     ///< of the argument, without quotes; else the name of a file
    std::string rule;      ///< that the value breaks; of an I/O error, the system's reason
};

/// A failure on its way to the C ABI: status, message, its parts, and a code: that of a callback
/// which failed, or errno.
class Error : public std::exception {
public:
    Error(sab_status status, std::string message, int32_t code = 0)
        : Error(status, std::move(message), code, {}) {}
    Error(sab_status status, std::string message, int32_t code, ErrorParts parts)
        : status_(status), code_(code), message_(std::move(message)), parts_(std::move(parts)) {}
    sab_status status() const { return status_; }
    int32_t code() const { return code_; }
    const ErrorParts& parts() const { return parts_; }
    const char* what() const noexcept override { return message_.c_str(); }

private:
    sab_status status_;
    int32_t code_;
    std::string message_;
    ErrorParts parts_;
};

/// The same failure, with `to` where names begin with `from`, such as "plan" for "options".
Error renamed(const Error& error, std::string_view from, std::string_view to);

/// Runs what calls the argument `to` of the caller's function `from`.
template <class Body>
decltype(auto) with_name(std::string_view from, std::string_view to, Body&& body) {
    try {
        return body();
    } catch (const Error& error) {
        throw renamed(error, from, to);
    }
}

[[noreturn, gnu::cold]] void fail_with(sab_status status, std::initializer_list<TextPart> parts);

/// Fails with a message that is about no argument.
template <class... Parts>
[[noreturn]] void fail(sab_status status, const Parts&... parts) {
    fail_with(status, {TextPart(parts)...});
}

/// A value that is text. The message has it in quotes.
struct Quoted {
    std::string_view text;
};
/// In the place of a value: the argument as a whole is meant, and the message shows no value.
struct NoValue {};
inline constexpr NoValue no_value;

/// An argument and its value, where a function tells both.
struct NamedValue {
    std::string name, value;
    /// "name = value"
    std::string in_words() const { return text(name, " = ", value); }
};

/// The name of an argument in parts, such as "sizes[", 3 and "]".
template <class... Parts>
std::array<TextPart, sizeof...(Parts)> named(const Parts&... parts) {
    return {TextPart(parts)...};
}

enum class ValueKind { plain, quoted, none };
using TextParts = std::initializer_list<TextPart>;
[[noreturn, gnu::cold]] void fail_about_with(sab_status status, std::span<const TextPart> argument,
                                             ValueKind kind, const TextPart& value, TextParts rule);
/// The most frequent ones take the least code where they are called.
[[noreturn, gnu::cold]] void refuse_with(std::string_view argument, const TextPart& value,
                                         TextParts rule);
[[noreturn, gnu::cold]] void refuse_with(std::span<const TextPart> argument, const TextPart& value,
                                         TextParts rule);

/// Says "argument = value: rule", or "argument: rule".
template <class Value, class... Rule>
[[noreturn]] void fail_about(sab_status status, std::span<const TextPart> argument,
                             const Value& value, const Rule&... rule) {
    if constexpr (std::same_as<Value, Quoted>)
        fail_about_with(status, argument, ValueKind::quoted, value.text, {TextPart(rule)...});
    else if constexpr (std::same_as<Value, NoValue>)
        fail_about_with(status, argument, ValueKind::none, "", {TextPart(rule)...});
    else
        fail_about_with(status, argument, ValueKind::plain, value, {TextPart(rule)...});
}

template <class Value, class... Rule>
[[noreturn]] void fail_about(sab_status status, std::string_view argument, const Value& value,
                             const Rule&... rule) {
    fail_about(status, std::span<const TextPart>(named(argument)), value, rule...);
}

template <class Value>
concept Shown = !std::same_as<Value, Quoted> && !std::same_as<Value, NoValue>;

template <class Value, class... Rule>
[[noreturn]] void refuse_argument(std::string_view argument, const Value& value,
                                  const Rule&... rule) {
    if constexpr (Shown<Value>)
        refuse_with(argument, value, {TextPart(rule)...});
    else
        fail_about(SAB_E_ARGUMENT, argument, value, rule...);
}

template <std::size_t count, class Value, class... Rule>
[[noreturn]] void refuse_argument(const std::array<TextPart, count>& argument, const Value& value,
                                  const Rule&... rule) {
    if constexpr (Shown<Value>)
        refuse_with(std::span<const TextPart>(argument), value, {TextPart(rule)...});
    else
        fail_about(SAB_E_ARGUMENT, std::span<const TextPart>(argument), value, rule...);
}

template <class... Rule>
[[noreturn]] void refuse_argument(const NamedValue& argument, const Rule&... rule) {
    refuse_argument(std::string_view(argument.name), argument.value, rule...);
}

/// refuse_argument() unless the rule is kept.
template <class Value, class... Rule>
void check(bool kept, std::string_view name, const Value& value, const Rule&... rule) {
    if (!kept) refuse_argument(name, value, rule...);
}

[[noreturn, gnu::cold]] void refuse_null(std::string_view name);
inline void require(const void* pointer, std::string_view name) {
    if (pointer == nullptr) refuse_null(name);
}

[[noreturn, gnu::cold]] void fail_named_with(sab_status status, std::string_view name,
                                             std::string_view separator, TextParts rule);
/// Says the name, the separator, such as ": ", and the rule that the contents break. The name is
/// that of an argument, or has that of a file in quotes.
template <class... Rule>
[[noreturn]] void fail_named(sab_status status, std::string_view name, std::string_view separator,
                             const Rule&... rule) {
    fail_named_with(status, name, separator, {TextPart(rule)...});
}
template <class... Rule>
[[noreturn]] void fail_format(std::string_view name, const Rule&... rule) {
    fail_named_with(SAB_E_FORMAT, name, ": ", {TextPart(rule)...});
}

/// Says `what "file": reason` with SAB_E_IO. `number` is an errno; 0: none is known.
[[noreturn, gnu::cold]] void fail_io(int32_t number, std::string_view what, std::string_view file,
                                     std::string_view reason);
/// The same with the system's text for the number. `where`: " at byte 5".
[[noreturn, gnu::cold]] void fail_io(int32_t number, std::string_view what, std::string_view file);

}  // namespace sab
