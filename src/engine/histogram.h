#pragma once
/// Numbers of samples by size, in ascending order.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/handle.h"
#include "plan/counted_turns.h"
#include "sab/engine.h"
#include "sizes/columns.h"

namespace sab {

class Histogram {
public:
    /// Of bytes that write() wrote.
    static Histogram read(std::span<const std::byte> bytes);

    /// Adds the samples. Where `numbers` is not empty it takes the number of each within its entry.
    void add(const Columns& sizes, std::span<uint64_t> numbers = {});
    void merge(const Histogram& other);
    void subtract(const Histogram& other);
    /// The appearances of the samples of a mixture in an epoch. Without `repeats` each has 1.
    Histogram in_epoch(std::span<const double> repeats, uint64_t epoch, uint64_t seed) const;
    /// The same samples as those of one data set.
    Histogram without_sources() const;
    /// Of in_epoch(), else null.
    const std::shared_ptr<const CountedTurns>& turns() const { return turns_; }

    std::size_t columns() const { return names_.size(); }
    std::size_t sources() const { return source_count_; }
    const std::vector<std::string>& names() const { return names_; }
    std::size_t entries() const { return counts_.size(); }
    uint64_t samples() const { return samples_; }
    /// The samples before each entry; one more at the end: all.
    std::vector<uint64_t> first_places() const;
    double total() const;
    /// One a column for each entry.
    std::span<const double> sizes() const { return sizes_; }
    std::span<const uint64_t> counts() const { return counts_; }
    /// Of the entries; empty where the sizes are no mixture.
    std::span<const uint32_t> sources_of() const { return sources_; }
    uint64_t fingerprint() const;
    /// Copies the bytes if they fit. Returns how many they are.
    std::size_t write(std::span<std::byte> room) const;

private:
    struct Header;
    Header header() const;
    std::vector<NameField> name_fields() const;
    /// -1, 0 or 1: whether an entry is before, equal to or after one of another histogram.
    int compare(std::size_t entry, const Histogram& other, std::size_t entry_of_other) const;
    void refuse_epoch(std::string_view argument) const;
    void take_kind(const Histogram& other, std::string_view argument);
    void append(const Histogram& from, std::size_t entry, uint64_t count);
    template <class Both>
    Histogram combined(const Histogram& other, Both&& both) const;

    std::vector<std::string> names_{};  ///< of the columns; none if nothing was added
    std::size_t source_count_ = 0;
    uint64_t samples_ = 0;
    std::vector<double> sizes_{};
    std::vector<uint64_t> counts_{};
    std::vector<uint32_t> sources_{};
    std::shared_ptr<const CountedTurns> turns_{};
};

/// Refuses a histogram of a mixture or without samples.
void refuse_mixture(const Histogram& histogram, const char* caller);

}  // namespace sab

struct sab_histogram {
    sab::Tag<sab_histogram> tag{};
    sab::Histogram impl{};
    sab::NamePointers names{impl.names()};
};
