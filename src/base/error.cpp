#include "base/error.h"

#include <charconv>
#include <cmath>
#include <cstring>
// libc++ does not set the macro, since its from_chars lacks numbers with fractions; on Apple's
// systems it is the system's age that counts.
#if defined(__cpp_lib_to_chars) || (defined(_LIBCPP_VERSION) && !defined(__APPLE__))
#define SAB_HAS_TO_CHARS
#else
#include <limits>
#include <locale>
#include <sstream>
#endif

namespace sab {
namespace {

template <class Number>
void append_number(std::string& out, Number number) {
    char digits[64];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

#ifndef SAB_HAS_TO_CHARS
/// g++ 10 has to_chars for whole numbers only.
template <std::floating_point Number>
void append_number(std::string& out, Number number) {
    std::ostringstream stream;
    stream.imbue(std::locale::classic());
    stream.precision(std::numeric_limits<Number>::digits10);
    stream << number;
    out += stream.str();
}
#endif

/// The sign of NaN has no meaning to a reader.
template <std::floating_point Number>
void append_real(std::string& out, Number number) {
    if (std::isnan(number))
        out += "nan";
    else
        append_number(out, number);
}

}  // namespace

void TextPart::append_to(std::string& out) const {
    switch (kind_) {
        case Kind::text: out += text_; break;
        case Kind::whole: append_number(out, static_cast<int64_t>(natural_)); break;
        case Kind::natural: append_number(out, natural_); break;
        case Kind::float32: append_real(out, float32_); break;
        case Kind::float64: append_real(out, float64_); break;
    }
}

std::string joined(std::initializer_list<TextPart> parts) {
    std::string out;
    for (const TextPart& part : parts) part.append_to(out);
    return out;
}

Error renamed(const Error& error, std::string_view from, std::string_view to) {
    const std::string name = text(from, ".");
    const auto with_new_name = [&](std::string words) {
        for (std::size_t at = 0; (at = words.find(name, at)) != std::string::npos; at += to.size())
            words.replace(at, from.size(), to);
        return words;
    };
    const ErrorParts& parts = error.parts();
    return {error.status(),
            with_new_name(error.what()),
            error.code(),
            {with_new_name(parts.argument), parts.value, with_new_name(parts.rule)}};
}

void fail_with(sab_status status, std::initializer_list<TextPart> parts) {
    throw Error(status, joined(parts));
}

void fail_about_with(sab_status status, std::span<const TextPart> argument, ValueKind kind,
                     const TextPart& value, TextParts rule) {
    ErrorParts parts{{}, {}, joined(rule)};
    for (const TextPart& part : argument) part.append_to(parts.argument);
    value.append_to(parts.value);
    const std::string_view quote = kind == ValueKind::quoted ? "\"" : "";
    std::string message = kind == ValueKind::none ? text(parts.argument, ": ", parts.rule)
                                                  : text(parts.argument, " = ", quote, parts.value,
                                                         quote, ": ", parts.rule);
    throw Error(status, std::move(message), 0, std::move(parts));
}

void refuse_with(std::span<const TextPart> argument, const TextPart& value, TextParts rule) {
    fail_about_with(SAB_E_ARGUMENT, argument, ValueKind::plain, value, rule);
}

void refuse_with(std::string_view argument, const TextPart& value, TextParts rule) {
    refuse_with(std::span<const TextPart>(named(argument)), value, rule);
}

void refuse_null(std::string_view name) {
    refuse_argument(name, "NULL", "must be given");
}

void fail_named_with(sab_status status, std::string_view name, std::string_view separator,
                     TextParts rule) {
    ErrorParts parts{{}, {}, joined(rule)};
    const std::size_t quote = name.find('"');
    if (quote == name.npos)
        parts.argument = name;
    else
        parts.value = name.substr(quote + 1, name.rfind('"') - quote - 1);
    std::string message = text(name, separator, parts.rule);
    throw Error(status, std::move(message), 0, std::move(parts));
}

void fail_io(int32_t number, std::string_view what, std::string_view file,
             std::string_view reason) {
    throw Error(SAB_E_IO, text(what, " \"", file, "\": ", reason), number,
                {{}, std::string(file), std::string(reason)});
}

void fail_io(int32_t number, std::string_view what, std::string_view file) {
    fail_io(number, what, file, std::strerror(number));
}

}  // namespace sab
