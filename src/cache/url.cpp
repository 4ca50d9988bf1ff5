#include "cache/url.h"

#include <charconv>

#include "base/error.h"

namespace sab::cache {
namespace {

constexpr std::string_view schemes = "must begin with \"lmdb:\", \"redis://\", \"redis-server:\" or \"memory:\"";

[[noreturn]] void refuse(std::string_view shown, std::string_view rule) { fail(SAB_E_ARGUMENT, "url = \"", shown, "\": ", rule); }

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

std::string decoded(std::string_view text, std::string_view shown) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        const int high = i + 2 < text.size() ? hex(text[i + 1]) : -1, low = i + 2 < text.size() ? hex(text[i + 2]) : -1;
        if (high < 0 || low < 0) refuse(shown, "a % of user and password must be followed by two hexadecimal digits");
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
        const bool is_plain = (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || c == '-' || c == '_' || c == '.' || c == '~';
        if (is_plain)
            out += c;
        else
            (out += '%', out += digits[byte >> 4], out += digits[byte & 15]);
    }
    return out;
}

RedisAddress parse_redis(std::string_view rest) {
    RedisAddress address;
    const std::size_t at = rest.rfind('@');
    const std::string shown = at == rest.npos ? text("redis://", rest) : text("redis://...@", rest.substr(at + 1));
    if (at != rest.npos) {
        const std::string_view who = rest.substr(0, at);
        const std::size_t colon = who.find(':');
        if (colon == who.npos) refuse(shown, "what stands before @ must be USER:PASSWORD, either of which may be empty");
        address.user = decoded(who.substr(0, colon), shown);
        address.password = decoded(who.substr(colon + 1), shown);
        rest = rest.substr(at + 1);
    }
    if (const std::size_t slash = rest.find('/'); slash != rest.npos) {
        const std::string_view number = rest.substr(slash + 1);
        if (!number.empty() && !read(number, address.database)) refuse(shown, "the number of the database must be a whole number");
        rest = rest.substr(0, slash);
    }
    while (true) {
        const std::size_t comma = rest.find(',');
        std::string_view one = rest.substr(0, comma), port;
        std::string host;
        if (!one.empty() && one.front() == '[') {
            const std::size_t end = one.find(']');
            if (end == one.npos || (end + 1 < one.size() && one[end + 1] != ':')) refuse(shown, "an address in brackets must end with ] and may be followed by :PORT");
            host = one.substr(1, end - 1);
            port = one.substr(end + 1);
        } else {
            host = one.substr(0, one.find(':'));
            port = one.substr(host.size());
        }
        uint16_t number = 6379;
        if (host.empty() || host.find_first_of(" \t\r\n[]") != host.npos) refuse(shown, "a host must have a name, without spaces and brackets");
        if (!port.empty() && (!read(port.substr(1), number) || number == 0)) refuse(shown, "a port must be from 1 to 65535");
        address.hosts.emplace_back(std::move(host), number);
        if (comma == rest.npos) return address;
        rest = rest.substr(comma + 1);
    }
}

}  // namespace

std::string RedisAddress::url() const {
    std::string out = "redis://";
    if (!user.empty() || !password.empty()) out += encoded(user) + ":" + encoded(password) + "@";
    for (std::size_t i = 0; i < hosts.size(); ++i) {
        const bool is_v6 = hosts[i].first.find(':') != std::string::npos;
        out += text(i > 0 ? "," : "", is_v6 ? "[" : "", std::string_view(hosts[i].first), is_v6 ? "]" : "", ":", hosts[i].second);
    }
    return database == 0 ? out : text(std::string_view(out), "/", database);
}

Url parse_url(std::string_view text) {
    const auto rest = [&](std::string_view scheme) { return text.substr(scheme.size()); };
    if (text.starts_with("memory:")) {
        if (text != "memory:") refuse(text, "nothing may follow \"memory:\"");
        return {Url::memory, "", {}};
    }
    if (text.starts_with("lmdb:")) {
        if (rest("lmdb:").empty()) refuse(text, "\"lmdb:\" must be followed by the name of a file");
        return {Url::lmdb, std::string(rest("lmdb:")), {}};
    }
    if (text.starts_with("redis-server:")) return {Url::redis_server, rest("redis-server:").empty() ? "redis-server" : std::string(rest("redis-server:")), {}};
    if (text.starts_with("redis://")) return {Url::redis, "", parse_redis(rest("redis://"))};
    refuse(text.substr(0, 40), schemes);
}

}  // namespace sab::cache
