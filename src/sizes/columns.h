#pragma once
/// Sizes of one or several columns.

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/handle.h"
#include "sizes/choice.h"
#include "sizes/sizes.h"

namespace sab {

/// One number a column. Those of columns that there are not are 0.
using PerColumn = std::array<double, SAB_MAX_COLUMNS>;

/// Those of the columns that there are. Valid as long as the numbers are.
inline std::span<const double> first_of(const PerColumn& numbers, std::size_t columns) {
    return {numbers.data(), columns};
}

inline void add(const PerColumn& numbers, double times, PerColumn& sums) {
    for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += times * numbers[j];
}

/// A name as files have it: zeros follow.
using NameField = std::array<char, SAB_MAX_COLUMN_NAME + 1>;
NameField name_field(std::string_view name);
/// None for a field that is not a name of UTF-8 and zeros.
std::optional<std::string> read_name(const NameField& field);

/// Refuses what is no name of a column. `argument` is where it was given, in messages.
void check_column_name(std::string_view argument, std::string_view name);
/// "2 columns, source and target", of the names of columns, which may be "".
std::string columns_listed(std::span<const std::string> names);

/// The names of columns as C has them. Valid as long as the strings, which must stay where they
/// are.
class NamePointers {
public:
    /// `names`: "" each without names.
    explicit NamePointers(std::span<const std::string> names) noexcept {
        has_names_ = !names.empty() && !names[0].empty();
        for (std::size_t j = 0; has_names_ && j < names.size(); ++j)
            pointers_[j] = names[j].c_str();
    }
    /// NULL without names.
    const char* const* get() const { return has_names_ ? pointers_.data() : nullptr; }

private:
    std::array<const char*, SAB_MAX_COLUMNS> pointers_{};
    bool has_names_;
};

/// Sizes of the same samples, with a name each or without names.
class Columns {
public:
    Columns(Sizes sizes) : columns_{std::move(sizes)}, names_(1) {}

    /// `names`: one for each column; NULL: those that the columns have.
    static Columns together(std::span<const sab_sizes* const> columns, const char* const* names);
    /// The samples of the first part, then those of the second, and so on. `name` is that of the
    /// parts in messages.
    static Columns join(std::span<const sab_sizes* const> parts, std::string_view name = "parts");
    /// These sizes with a choice of samples for each epoch.
    Columns chosen_by(std::shared_ptr<const EpochChoice> choice) const;
    /// The same sizes, dense in memory that no caller owns.
    Columns dense() const;
    /// The sizes of these samples, without a choice. What is not dense is copied as a whole.
    Columns of_samples(std::span<const uint32_t> samples) const;

    std::size_t size() const { return columns_.size(); }
    std::size_t count() const { return columns_[0].count(); }
    const Sizes& operator[](std::size_t column) const { return columns_[column]; }
    bool has_names() const { return !names_[0].empty(); }
    /// "" where the columns have no names.
    const std::vector<std::string>& names() const { return names_; }
    /// Of a column in messages: `sizes`, `sizes["source"]` or `sizes.columns[1]`.
    std::string described(std::size_t column) const;
    /// Reads the sizes from `first` on, which must be there: one a column for each sample.
    void read(std::size_t first, std::size_t count, double* rows) const;
    const std::string& description() const {
        return size() == 1 ? columns_[0].description() : description_;
    }

    /// The only column; refuses more, and a mixture. `name` is that of the sizes in messages.
    const Sizes& only(std::string_view name = "sizes") const;
    void need_one_column(std::string_view name) const;
    /// Which samples an epoch has; null: all, once each.
    const std::shared_ptr<const EpochChoice>& choice() const { return choice_; }
    void refuse_choice(std::string_view name) const;
    /// Refuses a mixture of one shard.
    void refuse_shard() const;

private:
    Columns() = default;
    void describe();

    std::vector<Sizes> columns_;
    std::vector<std::string> names_;
    std::string description_{};  ///< of several columns
    std::shared_ptr<const EpochChoice> choice_{};
};

}  // namespace sab

struct sab_sizes {
    sab::Tag<sab_sizes> tag{};
    sab::Columns impl;
    sab::NamePointers names{impl.names()};
};
