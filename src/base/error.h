#pragma once
/// The core's one exception type, and the text it carries.

#include <charconv>
#include <concepts>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "sab/base.h"

namespace sab {

inline void append(std::string& out, std::string_view text) { out += text; }

/// Numbers are written by to_chars: shortest exact form, whatever the locale says.
template <class Number>
    requires std::integral<Number> || std::floating_point<Number>
void append(std::string& out, Number number) {
    char digits[64];
    auto [end, failed] = std::to_chars(digits, digits + sizeof digits, number);
    (void)failed;
    out.append(digits, end);
}

template <class... Parts>
std::string text(const Parts&... parts) {
    std::string out;
    (append(out, parts), ...);
    return out;
}

/// A failure on its way to the C ABI: status, message, and the caller's own code when a callback failed.
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

template <class... Parts>
[[noreturn]] void fail(sab_status status, const Parts&... parts) {
    throw Error(status, text(parts...));
}

/// Runs a caller's callback: its code. A C++ exception that leaves it is a failure of the callback, its text in the message.
template <class Call>
int32_t called_back(std::string_view what, Call&& call) {
    try {
        return call();
    } catch (const std::exception& error) {
        throw Error(SAB_E_CALLBACK, text(what, " threw: ", std::string_view(error.what())));
    } catch (...) {
        throw Error(SAB_E_CALLBACK, text(what, " threw something that is no std::exception"));
    }
}

/// As called_back() of what must not fail: any code but 0 is thrown, unchanged.
template <class Call>
void call_back(std::string_view what, Call&& call) {
    if (const int32_t code = called_back(what, call); code != 0) throw Error(SAB_E_CALLBACK, text(what, " failed with code ", code), code);
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
