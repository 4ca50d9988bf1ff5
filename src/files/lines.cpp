#include "files/lines.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "sizes/texts.h"

namespace sab {
namespace {

constexpr std::size_t block_size = 1 << 18;
static_assert(Lines::padding >= simdjson::SIMDJSON_PADDING);

/// A number as JSON writes it. Whole numbers are the usual case.
class NumberParser {
public:
    struct Number {
        std::optional<int64_t> whole{};
        double real = 0;
    };
    std::optional<Number> parse(std::string_view line) {
        int64_t whole = 0;
        if (const auto [rest, error] =
                std::from_chars(line.data(), line.data() + line.size(), whole);
            error == std::errc{} && rest == line.data() + line.size())
            return Number{whole, 0};
        simdjson::dom::element element;
        const auto error = parser_.parse(line.data(), line.size(), true).get(element);
        if (error == simdjson::MEMALLOC) throw std::bad_alloc();
        double real = 0;
        if (error != simdjson::SUCCESS || element.get(real) != simdjson::SUCCESS)
            return std::nullopt;
        return Number{{}, real};
    }

private:
    simdjson::dom::parser parser_;
};

double value_of(const Lines& lines, std::string_view text) {
    const std::optional<double> value = number_in(text);
    if (!value || !is_size(*value))
        lines.refuse("\"", text.substr(0, 40), "\": must be a number from 0 to 2^53");
    return *value;
}

void check_utf8(const Lines& lines, std::string_view line) {
    if (!simdjson::validate_utf8(line.data(), line.size())) lines.refuse("is not valid UTF-8");
}

}  // namespace

Lines::Lines(Input& input)
    : input_(input),
      compression_(compression_of(input)),
      contents_(open_contents(input)),
      buffer_(block_size + padding) {}

/// Skips the mark that UTF-8 may begin with.
void Lines::begin() {
    constexpr std::string_view mark = "\xEF\xBB\xBF";
    if (is_begun_) return;
    while (end_ < mark.size() && more()) {
    }
    is_begun_ = true;
    if (std::string_view(buffer_.data(), end_).starts_with(mark)) begin_ = mark.size();
}

std::string_view Lines::head() {
    begin();
    while (end_ - begin_ < head_size && more()) {
    }
    return {buffer_.data() + begin_, std::min(end_ - begin_, head_size)};
}

bool Lines::next(std::string_view& line) {
    begin();
    const char* newline = nullptr;
    for (std::size_t looked = 0; newline == nullptr;) {
        const std::size_t left = end_ - begin_;
        const char* const from = buffer_.data() + begin_ + looked;
        if (left > looked)
            newline = static_cast<const char*>(std::memchr(from, '\n', left - looked));
        looked = left;
        if (newline == nullptr && !more()) break;
    }
    if (begin_ == end_) return false;
    const char* const from = buffer_.data() + begin_;
    std::size_t length =
        newline != nullptr ? static_cast<std::size_t>(newline - from) : end_ - begin_;
    take(1, length + (newline != nullptr ? 1 : 0));
    if (length > 0 && from[length - 1] == '\r') --length;
    line = {from, length};
    return true;
}

std::string_view Lines::block() {
    begin();
    if (begin_ == end_ && !more()) return {};
    for (std::size_t looked = 0;;) {
        const std::string_view left(buffer_.data() + begin_, end_ - begin_);
        const std::size_t newline = left.substr(looked).rfind('\n');
        if (newline != left.npos) return left.substr(0, looked + newline + 1);
        looked = left.size();
        if (!more()) return {buffer_.data() + begin_, end_ - begin_};  // more() moves the bytes
    }
}

void Lines::take(std::size_t count, std::size_t size) {
    number_ += count;
    begin_ += size;
    taken_ += size;
}

/// Reads on behind what is there; false at the end.
bool Lines::more() {
    if (begin_ > 0) {
        std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    if (end_ + padding >= buffer_.size()) buffer_.resize(2 * buffer_.size());
    char* const to = buffer_.data() + end_;
    const std::size_t count = contents_->read(to, buffer_.size() - padding - end_);
    if (const void* const nul = count > 0 ? std::memchr(to, 0, count) : nullptr) {
        const auto* const at = static_cast<const char*>(nul);
        const auto lines = std::count<const char*>(buffer_.data(), at, '\n');
        fail_named(SAB_E_FORMAT, text("\"", name(), "\""), ", ", "line ",
                   number_ + static_cast<uint64_t>(lines) + 1,
                   ": has a NUL byte: it is no text, and no binary format that is known");
    }
    end_ += count;
    return count > 0;
}

void FoundSizes::add(int64_t size) {
    ++count_;
    waiting_.push_back(size);
    if (waiting_.size() == most_waiting) flush();
}

void FoundSizes::add(double size) {
    flush();
    ++count_;
    if (!builder_.add(std::span<const double>(&size, 1)))
        fail(SAB_E_FORMAT, "size ", count_ - 1, " = ", size, ": must be from 0 to 2^53");
}

void FoundSizes::flush() {
    check(count_ <= largest_sample_count, "samples", count_, "must be at most ",
          largest_sample_count);
    if (!builder_.add(std::span<const int64_t>(waiting_)))
        fail(SAB_E_FORMAT, "sizes must be from 0 to 2^53");
    waiting_.clear();
}

Sizes FoundSizes::finish(std::string description) {
    flush();
    return Sizes(builder_.finish(), std::move(description));
}

std::string_view trimmed(std::string_view line) {
    while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
    while (!line.empty() && is_space(line.back())) line.remove_suffix(1);
    return line;
}

int64_t text_size(std::string_view text, sab_text_unit unit) {
    return unit == SAB_TEXT_WORDS ? words_in(text) : static_cast<int64_t>(text.size());
}

bool is_number(std::string_view line) {
    return NumberParser().parse(line).has_value();
}

Sizes read_numbers(Lines& lines) {
    FoundSizes found;
    NumberParser parser;
    uint64_t empty = 0;  // the number of the first empty line
    for (std::string_view line; lines.next(line);) {
        line = trimmed(line);
        if (line.empty()) {
            if (empty == 0) empty = lines.number();
            continue;
        }
        if (empty != 0)
            fail_named(SAB_E_FORMAT, text("\"", lines.name(), "\""), ", ", "line ", empty,
                       ": is empty: must be a number");
        const auto number = parser.parse(line);
        if (!number)
            lines.refuse("\"", line.substr(0, 40),
                         "\" is not a number; format \"text\" reads lines of text");
        if (number->whole ? !is_size(*number->whole) : !is_size(number->real))
            lines.refuse(line.substr(0, 40), ": must be from 0 to 2^53");
        if (number->whole)
            found.add(*number->whole);
        else
            found.add(number->real);
    }
    return found.finish(text("lines of numbers: ", counted(found.count(), "size")));
}

std::optional<double> named_number(std::string_view line) {
    line = trimmed(line);
    const auto name_end = std::ranges::find_if(line, is_space);
    line.remove_prefix(static_cast<std::size_t>(name_end - line.begin()));
    std::size_t comma = line.find(',');
    const std::optional<double> first = number_in(line.substr(0, comma));
    while (first && comma != line.npos) {  // the other numbers of a shape
        line.remove_prefix(comma + 1);
        comma = line.find(',');
        if (!number_in(line.substr(0, comma))) return std::nullopt;
    }
    return first;
}

Sizes read_text(Lines& lines, sab_text_unit unit) {
    FoundSizes found;
    for (std::string_view line; lines.next(line);) {
        check_utf8(lines, line);
        if (unit == SAB_TEXT_VALUE)
            found.add(value_of(lines, line));
        else
            found.add(text_size(line, unit));
    }
    const std::string_view what = unit == SAB_TEXT_VALUE   ? "values: "
                                  : unit == SAB_TEXT_WORDS ? "sizes in words: "
                                                           : "sizes in bytes: ";
    return found.finish(text("lines of text, ", what, counted(found.count(), "line")));
}

Sizes read_kaldi(Lines& lines) {
    FoundSizes found;
    for (std::string_view line; lines.next(line);) {
        check_utf8(lines, line);
        const std::optional<double> number = named_number(line);
        if (!number || !is_size(*number))
            lines.refuse("\"", line.substr(0, 40),
                         "\": must be a name and a number from 0 to 2^53");
        found.add(*number);
    }
    return found.finish(text("a name and a number a line: ", counted(found.count(), "size")));
}

Sizes read_fasta(Lines& lines) {
    FoundSizes found;
    int64_t residues = -1;  // of the record that is read; -1: none
    for (std::string_view line; lines.next(line);) {
        check_utf8(lines, line);
        if (line.starts_with('>')) {
            if (residues >= 0) found.add(residues);
            residues = 0;
            continue;
        }
        line = trimmed(line);
        if (line.empty()) continue;
        if (residues < 0) lines.refuse("a FASTA file must begin with \">\"");
        residues += static_cast<int64_t>(line.size());
    }
    if (residues >= 0) found.add(residues);
    return found.finish(text("FASTA, sizes in residues: ", counted(found.count(), "record")));
}

}  // namespace sab
