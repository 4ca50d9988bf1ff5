/// A field of each line of JSON. The first stage of simdjson finds the tokens, and the values that
/// were not asked for are skipped.
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <optional>

#include "files/lines.h"
#include "sizes/texts.h"

namespace sab {
namespace {

constexpr std::string_view one_a_line = "JSON lines have one whole object on each line";

/// A parser that could not allocate memory must not be used again.
bool failed(simdjson::error_code error) {
    if (error == simdjson::MEMALLOC) throw std::bad_alloc();
    return error != simdjson::SUCCESS;
}

class JsonLines {
public:
    JsonLines(Lines& lines, const sab_sizes_file_options& options)
        : lines_(lines), options_(options) {
        if (options.column != nullptr) column_ = options.column;
    }

    Sizes read() {
        for (;;) {
            const std::string_view block = lines_.block();
            if (block.empty()) break;
            if (find_tokens(block) == simdjson::SUCCESS)
                take_block();
            else
                take_lines(block.size());
        }
        if (options_.column == nullptr) refuse_without_column("");
        if (found_.count() == 0 && skipped_ > 0)
            fail_format(text("\"", lines_.name(), "\""), "no line has the field \"", column_,
                        "\"; ", fields_of_first_);
        doubts_.settle(text("field \"", column_, "\" of \"", lines_.name(), "\""));
        std::string description =
            text("JSON lines, field ", column_, ": ", counted(found_.count(), "line"));
        if (skipped_ > 0) {
            const std::string skipped = counted(skipped_, "line");
            description += text(" (", skipped.substr(0, skipped.find(' ')), " skipped)");
        }
        return found_.finish(std::move(description));
    }

private:
    /// Where a token is in the text: a bracket, a comma, a colon, or the begin of another value.
    using Token = const uint32_t*;

    /// Checks UTF-8 and the ends of strings, too. A line feed is never inside of a string.
    simdjson::error_code find_tokens(std::string_view text) {
        text_ = text;
        token_ = tokens_end_ = nullptr;
        line_begin_ = 0;
        line_end_ = text.size();
        auto error =
            text.size() > parser_.capacity() ? parser_.allocate(text.size()) : simdjson::SUCCESS;
        if (failed(error)) return error;
        const auto& stages = parser_.implementation;
        // A whole text: stage1_mode::regular, or false in simdjson before 1.0.
        error = stages->stage1(reinterpret_cast<const uint8_t*>(text.data()), text.size(), {});
        if (error == simdjson::EMPTY) return simdjson::SUCCESS;
        if (failed(error)) return error;
        token_ = stages->structural_indexes.get();
        tokens_end_ = token_ + stages->n_structural_indexes;
        return error;
    }

    void take_block() {
        for (std::size_t begin = 0; begin < text_.size();) {
            const std::size_t newline = text_.find('\n', begin);
            line_begin_ = begin;
            line_end_ = std::min(newline, text_.size());
            begin = std::min(line_end_ + 1, text_.size());
            lines_.take(1, begin - line_begin_);
            if (peek() != '\0') take_line();
        }
    }

    /// Takes the lines in so many bytes one by one, so that the message names the line.
    void take_lines(std::size_t bytes) {
        const uint64_t end = lines_.taken() + bytes;
        for (std::string_view line; lines_.taken() < end && lines_.next(line);) {
            if (const auto error = find_tokens(line); error != simdjson::SUCCESS)
                lines_.refuse("is not JSON: ", simdjson::error_message(error));
            if (peek() != '\0') take_line();
        }
    }

    void take_line() {
        if (peek() != '{')
            lines_.refuse("must be a JSON object, is ", kind_of(token_), "; ", one_a_line);
        const Token object = token_;
        if (options_.column == nullptr) refuse_without_column(fields_of(object));
        const Token value = find(column_);
        if (peek() != '\0') refuse_here("the end of the line");
        if (value == nullptr && options_.missing == SAB_MISSING_SKIP) {
            if (skipped_++ == 0) fields_of_first_ = fields_of(object);
        } else if (value == nullptr) {
            lines_.refuse("has no field \"", column_, "\"; ", fields_of(object));
        } else if (is_null(value)) {
            if (options_.nulls == SAB_NULLS_REFUSE)
                lines_.refuse("field \"", column_,
                              "\" is null; options.nulls = SAB_NULLS_ZERO counts nulls as 0");
            found_.add(int64_t{0});
        } else {
            measure(value);
        }
    }

    /// The first character of the next token of the line; 0 at its end.
    char peek() const {
        return token_ < tokens_end_ && *token_ < line_end_ ? text_[*token_] : '\0';
    }
    [[noreturn]] void refuse_here(std::string_view expected) const {
        if (peek() == '\0')
            lines_.refuse("is not JSON: the object does not end on this line; ", one_a_line);
        lines_.refuse("is not JSON: byte ", *token_ - line_begin_, " must be ", expected);
    }

    /// A value that is no object or list, as it is written. Nothing but white space is between it
    /// and the next token.
    std::string_view written(Token value) const {
        std::size_t end = line_end_;
        if (value + 1 < tokens_end_) end = std::min<std::size_t>(end, value[1]);
        return trimmed(text_.substr(*value, end - *value));
    }
    bool is_null(Token value) const { return text_[*value] == 'n' && written(value) == "null"; }

    /// Goes behind a value. Of an object or a list in it only the brackets count.
    void skip() {
        const char first = peek();
        if (first == '\0' || first == ',' || first == ':' || first == '}' || first == ']')
            refuse_here("a value");
        ++token_;
        for (std::size_t depth = first == '{' || first == '[' ? 1 : 0; depth > 0; ++token_) {
            const char next = peek();
            if (next == '\0') refuse_here("a bracket");
            if (next == '{' || next == '[') ++depth;
            if (next == '}' || next == ']') --depth;
        }
    }

    /// Goes behind the object that begins here. Calls `field(name, value)` for each of its fields;
    /// the name is as it is written.
    template <class Field>
    void walk(Field&& field) {
        ++token_;
        if (peek() == '}') {
            ++token_;
            return;
        }
        for (char end = ','; end != '}'; ++token_) {
            if (peek() != '"') refuse_here("the name of a field");
            const std::string_view name = written(token_++);
            if (peek() != ':') refuse_here("a colon");
            const Token value = ++token_;
            skip();
            end = peek();
            if (end != ',' && end != '}') refuse_here("a comma or a brace");
            field(name.substr(1, name.size() - 2), value);
        }
    }

    /// The value of a field of the object that begins here, null if there is none. Goes behind the
    /// object. A field whose name is the whole path comes first, and the first of equal names.
    Token find(std::string_view path) {
        Token whole = nullptr, outer = nullptr;
        const std::size_t dot = path.find('.');
        walk([&](std::string_view name, Token value) {
            if (whole == nullptr && is_name(name, path)) whole = value;
            if (outer == nullptr && dot != path.npos && is_name(name, path.substr(0, dot)))
                outer = value;
        });
        if (whole != nullptr || outer == nullptr || is_null(outer))
            return whole != nullptr ? whole : outer;
        if (text_[*outer] != '{') return nullptr;
        const Token behind = std::exchange(token_, outer);
        const Token found = find(path.substr(dot + 1));
        token_ = behind;
        return found;
    }

    bool is_name(std::string_view written, std::string_view name) {
        if (written.size() <= name.size() || written.find('\\') == written.npos)
            return written == name;
        return unescaped(written) == name;
    }

    /// What a string between quotes means; nothing if an escape is none.
    std::optional<std::string_view> unescaped(std::string_view written) {
        simdjson::dom::element string;
        std::string_view meaning;
        if (failed(values_.parse(written.data() - 1, written.size() + 2, false).get(string)) ||
            failed(string.get(meaning)))
            return std::nullopt;
        return meaning;
    }

    void measure(Token value) {
        const std::string_view given = written(value);
        if (given[0] == '"') {
            const std::string_view inside = given.substr(1, given.size() - 2);
            if (inside.find('\\') == inside.npos) return measure_text(inside);
            if (const auto string = unescaped(inside)) return measure_text(*string);
            lines_.refuse("field \"", column_, "\": an escape in the text is not valid");
        }
        if (given[0] == '[') {
            const int64_t count = count_items(value);
            doubts_.look_at_list(count == 1 && text_[value[1]] == '[');
            return found_.add(count);
        }
        if (!add_number(given))
            lines_.refuse("field \"", column_, "\" is ", kind_of(value),
                          ": must be a number, a text or a list");
    }

    void measure_text(std::string_view text) {
        if (options_.text_unit != SAB_TEXT_VALUE) {
            doubts_.look_at_text(text);
            return found_.add(text_size(text, options_.text_unit));
        }
        const std::optional<double> value = number_in(text);
        if (!value || !is_size(*value))
            lines_.refuse("field \"", column_, "\" = \"", text.substr(0, 40),
                          "\": must be a number from 0 to 2^53");
        found_.add(*value);
    }

    int64_t count_items(Token list) {
        const Token behind = std::exchange(token_, list + 1);
        int64_t count = 0;
        for (char end = peek(); end != ']'; ++token_) {
            skip();
            ++count;
            end = peek();
            if (end != ',' && end != ']') refuse_here("a comma or a bracket");
        }
        token_ = behind;
        return count;
    }

    /// Adds a number as JSON writes it; false if it is none.
    bool add_number(std::string_view given) {
        const auto refuse = [&] {
            lines_.refuse("field \"", column_, "\" = ", given.substr(0, 40),
                          ": must be from 0 to 2^53");
        };
        int64_t whole = 0;
        const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), whole);
        const bool is_whole =
            end == given.data() + given.size() && (given[0] != '0' || given.size() == 1);
        if (is_whole && (error == std::errc::result_out_of_range || !is_size(whole))) refuse();
        if (is_whole && error == std::errc{}) {
            found_.add(whole);
            return true;
        }
        simdjson::dom::element number;
        double real = 0;
        if (failed(values_.parse(given.data(), given.size(), false).get(number)) ||
            failed(number.get(real)))
            return false;
        if (!is_size(real)) refuse();
        found_.add(real);
        return true;
    }

    std::string_view kind_of(Token value) const {
        switch (text_[*value]) {
            case '[': return "a list";
            case '{': return "an object";
            case '"': return "a text";
            default: return written(value).substr(0, 40);
        }
    }

    /// "line 1 has: id, length, audio.frames": the fields of an object and of objects in it.
    std::string fields_of(Token object) {
        std::string fields;
        list_fields(object, "", fields);
        if (fields.empty()) return text("line ", lines_.number(), " has no fields");
        return text("line ", lines_.number(), " has: ", fields);
    }
    void list_fields(Token object, const std::string& prefix, std::string& fields) {
        constexpr std::size_t longest = 300;
        const Token behind = std::exchange(token_, object);
        walk([&](std::string_view name, Token value) {
            if (fields.size() > longest) {
                if (!fields.ends_with("...")) fields += ", ...";
                return;
            }
            const std::string whole = text(prefix, name);
            const bool has_fields = text_[*value] == '{' && text_[value[1]] != '}';
            if (has_fields && prefix.size() < longest)
                return list_fields(value, whole + ".", fields);
            fields += text(fields.empty() ? "" : ", ", whole);
        });
        token_ = behind;
    }

    [[noreturn]] void refuse_without_column(const std::string& fields) const {
        refuse_argument("options.column", "NULL", "must name a field of the JSON lines in \"",
                        lines_.name(), "\"", fields.empty() ? "" : "; ", fields);
    }

    Lines& lines_;
    const sab_sizes_file_options& options_;
    std::string_view column_{};
    simdjson::dom::parser parser_{};  ///< of tokens
    simdjson::dom::parser values_{};  ///< of numbers and strings with escapes
    std::string_view text_{};         ///< a block of lines, or one line
    std::size_t line_begin_ = 0, line_end_ = 0;
    Token token_ = nullptr, tokens_end_ = nullptr;  ///< the next one in the text
    FoundSizes found_{};
    Doubts doubts_{options_.text_unit};
    std::size_t skipped_ = 0;
    std::string fields_of_first_{};
};

}  // namespace

Sizes read_json_lines(Lines& lines, const sab_sizes_file_options& options) {
    return JsonLines(lines, options).read();
}

}  // namespace sab
