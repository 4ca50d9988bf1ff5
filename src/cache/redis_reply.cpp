#include "cache/redis_reply.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace sab::cache {
namespace {

constexpr std::size_t longest_line = std::size_t{1} << 16;
// arrays within arrays
constexpr std::size_t deepest = 8;
// room for what is announced but has not come
constexpr std::size_t first_bytes = std::size_t{1} << 20, first_elements = std::size_t{1} << 10;

bool read_number(std::string_view text, int64_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

ReplyReader::Result ReplyReader::read(std::string_view& bytes, const ReplyBounds& bounds) {
    while (!bytes.empty()) {
        const std::size_t before = bytes.size();
        const Result result = string_left_ > 0 ? read_string(bytes) : read_line(bytes, bounds);
        used_ += before - bytes.size();
        if (used_ > bounds.bytes) return wrong;
        if (result == whole) used_ = elements_ = 0;
        if (result != more) return result;
    }
    return more;
}

Reply ReplyReader::take() {
    return std::exchange(done_, Reply{});
}

ReplyReader::Result ReplyReader::read_line(std::string_view& bytes, const ReplyBounds& bounds) {
    const std::size_t end = bytes.find('\n'), size = std::min(end, bytes.size());
    if (line_.size() + size > longest_line) return wrong;
    line_ += bytes.substr(0, size);
    bytes.remove_prefix(end == bytes.npos ? size : size + 1);
    if (end == bytes.npos) return more;
    if (line_.size() < 2 || line_.back() != '\r') return wrong;
    const Result result = begin(std::string_view(line_).substr(0, line_.size() - 1), bounds);
    line_.clear();
    return result;
}

ReplyReader::Result ReplyReader::begin(std::string_view line, const ReplyBounds& bounds) {
    const char kind = line[0];
    const std::string_view rest = line.substr(1);
    if (kind == '+' || kind == '-')
        return add({kind == '+' ? Reply::status : Reply::error, std::string(rest)});
    int64_t number = 0;
    if (!read_number(rest, number)) return wrong;
    if (kind == ':') return add({Reply::integer, {}, number});
    if (kind != '$' && kind != '*') return wrong;
    if (number == -1) return add({});
    if (number < 0) return wrong;
    const auto size = static_cast<std::size_t>(number);
    if (kind == '*') return begin_array(size, bounds);
    if (size > std::min(bounds.string, bounds.bytes - used_)) return wrong;
    string_.reserve(std::min(size, first_bytes));
    string_left_ = size + 2;
    return more;
}

ReplyReader::Result ReplyReader::begin_array(std::size_t size, const ReplyBounds& bounds) {
    if (size > bounds.elements - elements_ || open_.size() == deepest) return wrong;
    elements_ += size;
    if (size == 0) return add({Reply::array});
    open_.push_back({{Reply::array}, size});
    open_.back().reply.elements.reserve(std::min(size, first_elements));
    return more;
}

ReplyReader::Result ReplyReader::read_string(std::string_view& bytes) {
    const std::size_t size = string_left_ <= 2 ? 0 : std::min(bytes.size(), string_left_ - 2);
    string_ += bytes.substr(0, size);
    bytes.remove_prefix(size);
    string_left_ -= size;
    for (; !bytes.empty() && string_left_ > 0 && string_left_ <= 2;
         bytes.remove_prefix(1), --string_left_)
        if (bytes.front() != (string_left_ == 2 ? '\r' : '\n')) return wrong;
    return string_left_ > 0 ? more : add({Reply::string, std::exchange(string_, {})});
}

/// An answer, or an element of one that may be its last.
ReplyReader::Result ReplyReader::add(Reply reply) {
    while (!open_.empty()) {
        Open& last = open_.back();
        last.reply.elements.push_back(std::move(reply));
        if (--last.left > 0) return more;
        reply = std::move(last.reply);
        open_.pop_back();
    }
    done_ = std::move(reply);
    return whole;
}

}  // namespace sab::cache
