#include "cache/url.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace sab::cache {
namespace {

constexpr std::string_view schemes =
    "must begin with \"lmdb:\", \"redis://\", \"redis-server:\" or \"memory:\"";

[[noreturn]] void refuse(std::string_view shown, std::string_view rule) {
    refuse_argument("url", Quoted(shown), rule);
}

/// Nothing of the URL itself is shown: a password may be anywhere in it, where its @ is missing or
/// it has an @ of its own.
[[noreturn]] void refuse_host(std::size_t number, std::string_view rule) {
    refuse_argument("url", Quoted("redis://..."), "host ", number, ": ", rule);
}

template <class Number>
bool read(std::string_view text, Number& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

int hex(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    const char low = static_cast<char>(digit | 0x20);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

std::string decoded(std::string_view text, std::size_t host) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        const int high = i + 2 < text.size() ? hex(text[i + 1]) : -1,
                  low = i + 2 < text.size() ? hex(text[i + 2]) : -1;
        if (high < 0 || low < 0)
            refuse_host(host,
                        "a % of user and password must be followed by two hexadecimal digits");
        out += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return out;
}

std::string encoded(std::string_view text) {
    constexpr char digits[] = "0123456789ABCDEF";
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool is_plain = (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
                              (byte >= 'a' && byte <= 'z') || c == '-' || c == '_' || c == '.' ||
                              c == '~';
        if (is_plain)
            out += c;
        else
            (out += '%', out += digits[byte >> 4], out += digits[byte & 15]);
    }
    return out;
}

RedisAddress parse_redis(std::string_view rest) {
    RedisAddress address;
    if (const std::size_t slash = rest.find('/'); slash != rest.npos) {
        const std::string_view number = rest.substr(slash + 1);
        if (!number.empty() && !read(number, address.database))
            refuse("redis://...", "the number of the database must be a whole number");
        rest = rest.substr(0, slash);
    }
    RedisHost host;  // user and password stay for the next
    for (std::size_t number = 1;; ++number) {
        const std::size_t comma = rest.find(',');
        std::string_view one = rest.substr(0, comma), port;
        if (const std::size_t at = one.rfind('@'); at != one.npos) {
            const std::string_view who = one.substr(0, at);
            const std::size_t colon = who.find(':');
            if (colon == who.npos)
                refuse_host(
                    number,
                    "what stands before @ must be USER:PASSWORD, either of which may be empty");
            host.user = decoded(who.substr(0, colon), number);
            host.password = decoded(who.substr(colon + 1), number);
            one = one.substr(at + 1);
        }
        if (!one.empty() && one.front() == '[') {
            const std::size_t end = one.find(']');
            if (end == one.npos || (end + 1 < one.size() && one[end + 1] != ':'))
                refuse_host(number,
                            "an address in brackets must end with ] and may be followed by :PORT");
            host.name = one.substr(1, end - 1);
            port = one.substr(end + 1);
        } else {
            host.name = one.substr(0, one.find(':'));
            port = one.substr(host.name.size());
        }
        host.port = 6379;
        const bool is_name = std::none_of(host.name.begin(), host.name.end(), [](char c) {
            return static_cast<unsigned char>(c) <= ' ' || c == 127 ||
                   std::string_view("/[]").find(c) != std::string_view::npos;
        });
        if (host.name.empty() || !is_name)
            refuse_host(number, "a host must have a name, without spaces, slashes and brackets");
        if (!port.empty() && (!read(port.substr(1), host.port) || host.port == 0))
            refuse_host(number, "a port must be from 1 to 65535");
        address.hosts.push_back(host);
        if (comma == rest.npos) return address;
        rest = rest.substr(comma + 1);
    }
}

}  // namespace

std::string RedisAddress::url() const {
    std::string out = "redis://";
    for (std::size_t i = 0; i < hosts.size(); ++i) {
        const RedisHost& host = hosts[i];
        if (i > 0) out += ',';
        const bool is_new =
            i == 0 ? !host.user.empty() || !host.password.empty()
                   : host.user != hosts[i - 1].user || host.password != hosts[i - 1].password;
        if (is_new)
            out += text(std::string_view(encoded(host.user)), ":",
                        std::string_view(encoded(host.password)), "@");
        const bool is_v6 = host.name.find(':') != std::string::npos;
        out +=
            text(is_v6 ? "[" : "", std::string_view(host.name), is_v6 ? "]" : "", ":", host.port);
    }
    return database == 0 ? out : text(std::string_view(out), "/", database);
}

Url parse_url(std::string_view text) {
    const auto rest = [&](std::string_view scheme) { return text.substr(scheme.size()); };
    if (text.starts_with("memory:")) {
        if (text != "memory:") refuse(text, "nothing may follow \"memory:\"");
        return {Url::memory, "", "", {}};
    }
    if (text.starts_with("lmdb:")) {
        if (rest("lmdb:").empty()) refuse(text, "\"lmdb:\" must be followed by the name of a file");
        return {Url::lmdb, std::string(rest("lmdb:")), "", {}};
    }
    if (text.starts_with("redis-server:")) {
        const std::string_view all = rest("redis-server:"), program = all.substr(0, all.find('@')),
                               bind = all.substr(program.size());
        if (bind == "@") refuse(text, "@ must be followed by an address of this machine");
        return {Url::redis_server,
                program.empty() ? "redis-server" : std::string(program),
                bind.empty() ? "127.0.0.1" : std::string(bind.substr(1)),
                {}};
    }
    if (text.starts_with("redis://")) return {Url::redis, "", "", parse_redis(rest("redis://"))};
    // Of another URL only the scheme, since it may have a password.
    const std::size_t colon = text.find(':');
    const std::string_view scheme =
        text.substr(0, colon == text.npos ? std::size_t{40} : std::min<std::size_t>(colon, 40));
    refuse(text.find('@') < colon ? "..." : scheme, schemes);
}

}  // namespace sab::cache
