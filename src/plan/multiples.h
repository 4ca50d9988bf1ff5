#pragma once
/// Lengths that are rounded up in rows: of the samples, and of the rows.

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/hasher.h"
#include "plan/batch_sizes.h"

namespace sab {

/// Of each column; 0: not rounded up.
struct Multiples {
    PerColumn lengths{};  ///< of samples, and of pieces of them
    PerColumn rows{};

    bool round_lengths() const { return std::ranges::any_of(lengths, is_given); }
    bool round_rows() const { return std::ranges::any_of(rows, is_given); }
    double length(double size, std::size_t column) const { return round_up(size, lengths[column]); }
    double row(double total, std::size_t column) const { return round_up(total, rows[column]); }
    std::string hint() const { return rounding_hint(lengths); }

    /// Nothing where lengths are as they are.
    void add_to(Hasher& hash) const {
        if (!round_lengths() && !round_rows()) return;
        hash.add(lengths);
        hash.add(rows);
    }

private:
    static bool is_given(double multiple) { return multiple > 0; }
};

}  // namespace sab
