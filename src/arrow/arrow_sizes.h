#pragma once
/// Sizes in Arrow's C data and stream interfaces.

#include <memory>

#include "sab/arrow.h"
#include "sizes/sizes.h"

namespace sab {

/// A struct of Arrow's interfaces that belongs to the library: released with the object.
template <class Interface>
struct Owned {
    Interface value{};

    Owned() = default;
    ~Owned() {
        if (value.release != nullptr) value.release(&value);
    }
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;

    /// Moves the caller's struct here, as the interface says: the caller's counts as released.
    void take(Interface& from) noexcept {
        value = from;
        from.release = nullptr;
    }
};

/// The array must stay where it is as long as `owner`, which the sizes keep.
Sizes read_arrow(const ArrowArray& array, const ArrowSchema& schema, const char* column,
                 const sab_sizes_arrow_options& options, const std::shared_ptr<const void>& owner);
/// Reads all arrays of the stream. The sizes keep them and `owner`.
Sizes read_arrow_stream(ArrowArrayStream& stream, const char* column,
                        const sab_sizes_arrow_options& options,
                        const std::shared_ptr<const void>& owner);

}  // namespace sab
