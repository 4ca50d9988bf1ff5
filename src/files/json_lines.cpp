/// A field of each line of JSON, by simdjson.
#include <simdjson.h>

#include <algorithm>
#include <new>

#include "files/lines.h"

namespace sab {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

/// A parser that could not allocate memory must not be used again.
bool failed(simdjson::error_code error) {
    if (error == simdjson::MEMALLOC) throw std::bad_alloc();
    return error != simdjson::SUCCESS;
}

std::string_view kind_of(const element& value) {
    switch (value.type()) {
        case element_type::ARRAY: return "a list";
        case element_type::OBJECT: return "an object";
        case element_type::STRING: return "a text";
        case element_type::BOOL: return "true or false";
        case element_type::NULL_VALUE: return "null";
        default: return "a number";
    }
}

/// "id, length, text": the fields of an object, those of objects in it as "audio.frames".
void list_fields(const simdjson::dom::object& object, const std::string& prefix,
                 std::string& fields) {
    constexpr std::size_t longest = 300;
    for (const auto field : object) {
        if (fields.size() > longest) {
            if (!fields.ends_with("...")) fields += ", ...";
            return;
        }
        const std::string name = prefix + std::string(field.key);
        simdjson::dom::object inner;
        if (field.value.get(inner) == simdjson::SUCCESS && inner.begin() != inner.end()) {
            list_fields(inner, name + ".", fields);
            continue;
        }
        if (!fields.empty()) fields += ", ";
        fields += name;
    }
}

class JsonLines {
public:
    JsonLines(Lines& lines, const sab_sizes_file_options& options)
        : lines_(lines), column_(options.column), options_(options) {}

    Sizes read() {
        for (;;) {
            const std::string_view block = lines_.block();
            if (block.empty()) break;
            take_rest(block.size() - take_many(block));
        }
        if (found_.count() == 0 && skipped_ > 0)
            fail(SAB_E_FORMAT, "\"", lines_.name(), "\": no line has the field \"", column_,
                 "\" with a value; ", fields_of_first_);
        std::string description =
            text("JSON lines, field ", column_, ": ", counted(found_.count(), "line"));
        if (skipped_ > 0) {
            const std::string skipped = counted(skipped_, "line");
            description += text(" (", skipped.substr(0, skipped.find(' ')), " skipped)");
        }
        return found_.finish(std::move(description));
    }

private:
    /// The size that a field has.
    struct Size {
        bool is_whole = true;
        int64_t whole = 0;
        double real = 0;
        bool is_allowed() const { return is_whole ? is_size(whole) : is_size(real); }
    };

    /// Takes lines as long as each is an object that has a size: fast, by parsing many at once.
    /// Gives the number of bytes taken.
    std::size_t take_many(std::string_view block) {
        simdjson::dom::document_stream documents;
        const auto error =
            parser_.parse_many(block.data(), block.size(), block.size()).get(documents);
        if (failed(error)) return 0;
        std::size_t begin = 0, end = 0;  // of the line of the document before
        Size size{};                     // of that document
        auto document = documents.begin();
        // Only if the next document begins on the next line, the one before ends on its own.
        for (; document != documents.end() && document.current_index() == end; ++document) {
            element value;
            simdjson::dom::object object;
            if (end > 0) accept(size, end - begin);
            begin = end;
            if (failed((*document).get(object)) || !find(object, value) || !measure(value, size) ||
                !size.is_allowed())
                return begin;
            end = std::min(block.find('\n', begin), block.size() - 1) + 1;
        }
        if (!(document != documents.end()) && end == block.size()) {
            accept(size, end - begin);
            return end;
        }
        return begin;
    }
    void accept(const Size& size, std::size_t bytes) {
        lines_.take(1, bytes);
        add(size);
    }

    /// Takes the lines in so many bytes one by one: the messages name the line.
    void take_rest(std::size_t bytes) {
        const uint64_t end = lines_.taken() + bytes;
        for (std::string_view line; lines_.taken() < end && lines_.next(line);)
            if (!trimmed(line).empty()) take(line);
    }

    void take(std::string_view line) {
        element document;
        const auto error = parser_.parse(line.data(), line.size(), false).get(document);
        if (failed(error)) lines_.refuse("is not JSON: ", simdjson::error_message(error));
        simdjson::dom::object object;
        if (document.get(object) != simdjson::SUCCESS)
            lines_.refuse("must be a JSON object, is ", kind_of(document));
        element value;
        const bool has_field = find(object, value);
        Size size{};
        if (has_field && measure(value, size)) {
            if (size.is_allowed()) return add(size);
            lines_.refuse("field \"", column_,
                          "\" = ", size.is_whole ? text(size.whole) : text(size.real),
                          ": must be from 0 to 2^53");
        }
        if (has_field && !value.is_null())
            lines_.refuse("field \"", column_, "\" is ", kind_of(value),
                          ": must be a number, a text or a list");
        if (options_.missing == SAB_MISSING_SKIP) return skip(object);
        if (has_field) lines_.refuse("field \"", column_, "\" is null");
        lines_.refuse("has no field \"", column_, "\"; ", fields_of(object));
    }

    /// A field whose name is the whole path comes first.
    bool find(simdjson::dom::object object, element& value) const {
        std::string_view path = column_;
        while (object.at_key(path).get(value) != simdjson::SUCCESS) {
            const std::size_t dot = path.find('.');
            if (dot == path.npos ||
                object.at_key(path.substr(0, dot)).get(object) != simdjson::SUCCESS)
                return false;
            path.remove_prefix(dot + 1);
        }
        return true;
    }

    /// False if the value has no size; a number may break the rules of sizes.
    bool measure(const element& value, Size& size) const {
        std::string_view string;
        simdjson::dom::array list;
        size = {};
        if (value.get(size.whole) == simdjson::SUCCESS) return true;
        if (value.get(string) == simdjson::SUCCESS) {
            size.whole = text_size(string, options_.text_unit);
            return true;
        }
        if (value.get(list) == simdjson::SUCCESS) {
            for ([[maybe_unused]] const auto item : list) ++size.whole;
            return true;
        }
        size.is_whole = false;
        return value.get(size.real) == simdjson::SUCCESS;
    }

    void add(const Size& size) {
        if (size.is_whole)
            found_.add(size.whole);
        else
            found_.add(size.real);
    }

    void skip(const simdjson::dom::object& object) {
        if (skipped_++ == 0) fields_of_first_ = fields_of(object);
    }
    std::string fields_of(const simdjson::dom::object& object) const {
        std::string fields;
        list_fields(object, "", fields);
        if (fields.empty()) return text("line ", lines_.number(), " has no fields");
        return text("line ", lines_.number(), " has: ", fields);
    }

    Lines& lines_;
    std::string_view column_;
    const sab_sizes_file_options& options_;
    simdjson::dom::parser parser_{};
    FoundSizes found_{};
    std::size_t skipped_ = 0;
    std::string fields_of_first_{};
};

/// The message for options.column = NULL.
[[noreturn]] void refuse_without_column(Lines& lines) {
    std::string fields;
    simdjson::dom::parser parser;
    for (std::string_view line; fields.empty() && lines.next(line);) {
        simdjson::dom::object object;
        if (!failed(parser.parse(line.data(), line.size(), false).get(object)))
            list_fields(object, "", fields);
    }
    fail(SAB_E_ARGUMENT, "options.column = NULL: must name a field of the JSON lines in \"",
         lines.name(), "\"", fields.empty() ? "" : "; line ",
         fields.empty() ? "" : text(lines.number()), fields.empty() ? "" : " has: ", fields);
}

}  // namespace

Sizes read_json_lines(Lines& lines, const sab_sizes_file_options& options) {
    if (options.column == nullptr) refuse_without_column(lines);
    return JsonLines(lines, options).read();
}

}  // namespace sab
