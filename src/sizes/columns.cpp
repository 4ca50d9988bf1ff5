#include "sizes/columns.h"

#include <algorithm>
#include <cstring>

namespace sab {
namespace {

/// Whether it is UTF-8, with the shortest form of each character and without surrogates.
bool is_utf8(std::string_view text) {
    static constexpr uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    for (std::size_t i = 0; i < text.size();) {
        const auto first = static_cast<unsigned char>(text[i++]);
        const std::size_t more = first < 0xC0 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
        if ((first & 0xC0) == 0x80 || first >= 0xF8 || more > text.size() - i) return false;
        uint32_t character = more == 0 ? first : first & (0x3Fu >> more);
        for (const char next : text.substr(i, more)) {
            if ((next & 0xC0) != 0x80) return false;
            character = character << 6 | (next & 0x3F);
        }
        if (character < least[more] || character > 0x10FFFF || character >> 11 == 0x1B)
            return false;
        i += more;
    }
    return true;
}

}  // namespace

NameField name_field(std::string_view name) {
    NameField field{};
    std::ranges::copy(name, field.begin());
    return field;
}

std::optional<std::string> read_name(const NameField& field) {
    const auto end = std::ranges::find(field, '\0');
    if (end == field.end() ||
        std::any_of(end, field.end(), [](char letter) { return letter != '\0'; }))
        return std::nullopt;
    std::string name(field.begin(), end);
    if (!is_utf8(name)) return std::nullopt;
    return name;
}

void check_column_name(std::string_view argument, std::string_view name) {
    const bool is_plain = std::ranges::none_of(
        name, [](char letter) { return static_cast<unsigned char>(letter) < ' '; });
    check(!name.empty() && name.size() <= SAB_MAX_COLUMN_NAME && is_plain && is_utf8(name),
          argument, Quoted{name}, "must have 1 to ", SAB_MAX_COLUMN_NAME,
          " bytes of UTF-8, without control characters");
}

std::string columns_listed(std::span<const std::string> names) {
    std::string list = counted(names.size(), "column");
    for (std::size_t i = 0; i < names.size() && !names[0].empty(); ++i)
        list += text(i == 0 ? ", " : i + 1 == names.size() ? " and " : ", ", names[i]);
    return list;
}

Columns Columns::together(std::span<const sab_sizes* const> columns, const char* const* names) {
    check(!columns.empty() && columns.size() <= SAB_MAX_COLUMNS, "count", columns.size(),
          "must be from 1 to ", SAB_MAX_COLUMNS, ", the most columns that sizes can have");
    Columns made;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        const std::string place = text("columns[", i, "]");
        require(columns[i], place);
        const Columns& column = columns[i]->impl;
        made.columns_.push_back(column.only(place));
        if (names != nullptr) {
            const std::string argument = text("names[", i, "]");
            require(names[i], argument);
            check_column_name(argument, names[i]);
        }
        made.names_.emplace_back(names != nullptr ? names[i] : column.names_[0]);
        const std::string& name = made.names_.back();
        const std::string quoted = name.empty() ? "" : text("\"", name, "\" ");
        if (column.count() != made.count())
            refuse_argument(place, no_value, quoted, "has ", column.count(),
                            " samples: must have as many as columns[0], ", made.count());
        if (name.empty() != made.names_[0].empty())
            refuse_argument(place, no_value, quoted, name.empty() ? "has no name" : "has a name",
                            ": all columns must have a name, or none");
        const auto first = std::ranges::find(made.names_, name);
        if (!name.empty() && first + 1 != made.names_.end())
            refuse_argument(place, no_value, quoted, "has the name of columns[",
                            first - made.names_.begin(),
                            "]: no two columns may have the same name");
    }
    made.describe();
    return made;
}

Columns Columns::join(std::span<const sab_sizes* const> parts, std::string_view name) {
    std::vector<const Sizes*> of_column(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::string place = text(name, "[", i, "]");
        require(parts[i], place);
        parts[i]->impl.refuse_choice(place);
        if (parts[i]->impl.names_ != parts[0]->impl.names_)
            refuse_argument(place, no_value, "has ", columns_listed(parts[i]->impl.names_),
                            ": must have the columns of ", name, "[0], ",
                            std::string_view(columns_listed(parts[0]->impl.names_)));
    }
    Columns made;
    made.names_ = parts.empty() ? std::vector<std::string>(1) : parts[0]->impl.names_;
    for (std::size_t column = 0; column < made.names_.size(); ++column) {
        for (std::size_t i = 0; i < parts.size(); ++i) of_column[i] = &parts[i]->impl[column];
        made.columns_.push_back(Sizes::join(of_column));
    }
    made.describe();
    return made;
}

void Columns::read(std::size_t first, std::size_t count, double* rows) const {
    if (size() == 1) return columns_[0].read(first, {rows, count}, described(0));
    std::vector<double> read(count * size());  // all are checked before the first is written
    const std::span<double> all(read);
    for (std::size_t j = 0; j < size(); ++j)
        columns_[j].read(first, all.subspan(j * count, count), described(j));
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = 0; j < size(); ++j) rows[i * size() + j] = read[j * count + i];
}

Columns Columns::chosen_by(std::shared_ptr<const EpochChoice> choice) const {
    refuse_choice("sizes");
    Columns chosen = *this;
    chosen.choice_ = std::move(choice);
    return chosen;
}

Columns Columns::dense() const {
    Columns made = *this;
    for (std::size_t j = 0; j < size(); ++j) {
        const DenseSizes dense = columns_[j].dense(described(j));
        made.columns_[j] = Sizes(dense.owned(), columns_[j].description());
    }
    return made;
}

Columns Columns::of_samples(std::span<const uint32_t> samples) const {
    Columns made;
    made.names_ = names_;
    for (std::size_t j = 0; j < size(); ++j)
        made.columns_.emplace_back(columns_[j].dense(described(j)).of_samples(samples),
                                   columns_[j].description());
    made.description_ = description_;
    return made;
}

std::string Columns::described(std::size_t column) const {
    if (has_names()) return text("sizes[\"", names_[column], "\"]");
    return size() == 1 ? "sizes" : text("sizes.columns[", column, "]");
}

void Columns::need_one_column(std::string_view name) const {
    if (size() > 1)
        refuse_argument(name, no_value, "has ", columns_listed(names_), ": must have one");
}

const Sizes& Columns::only(std::string_view name) const {
    need_one_column(name);
    refuse_choice(name);
    return columns_[0];
}

void Columns::refuse_choice(std::string_view name) const {
    if (choice_ != nullptr)
        refuse_argument(name, no_value,
                        "is a mixture: must be the sizes of one data set. Plans, packed, balanced "
                        "and sharded samplers take mixtures");
}

void Columns::refuse_shard() const {
    if (choice_ != nullptr && choice_->is_shard())
        refuse_argument("sizes", no_value,
                        "are a mixture of one shard, with all_sources: only sharded samplers, "
                        "which have all shards, take it");
}

void Columns::describe() {
    for (std::size_t i = 0; i < size() && size() > 1; ++i) {
        if (i > 0) description_ += "; ";
        description_ +=
            text(has_names() ? names_[i] : text("column ", i), ": ", columns_[i].description());
    }
}

}  // namespace sab
