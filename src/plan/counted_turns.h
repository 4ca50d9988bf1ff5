#pragma once
/// How often an epoch of a mixture has samples that have no indices.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

struct sab_plan;

namespace sab {

/// The samples of a source with the same sizes. Plain data: it is written to plan files as it is.
struct EntryTurns {
    uint64_t samples;
    uint64_t turns;  ///< of all of them: each has turns / samples, or one more
    uint64_t start;  ///< the turns % samples places from here on, modulo samples, have one more
    uint64_t source;
};

struct CountedTurns {
    /// Of bytes that write() made; `name` is in messages.
    static std::shared_ptr<const CountedTurns> read(std::span<const std::byte> image,
                                                    std::string_view name);
    std::vector<std::byte> write() const;

    uint64_t epoch = 0;
    uint64_t seed = 0;  ///< of the order in which samples have one more turn
    std::size_t columns = 1;
    std::vector<EntryTurns> entries{};  ///< by source, then by the size in each column
    std::vector<double> sizes{};        ///< one a column for each entry

    uint64_t all() const;
    /// The entries by the size in each column, then by source.
    std::vector<std::size_t> by_size() const;

private:
    /// Whether the sizes of an entry are before those of another.
    bool is_smaller(std::size_t entry, std::size_t other) const;
};

/// Whether the bytes are those of the plan of an epoch: the image of a plan and one of turns.
bool is_epoch_plan(std::span<const std::byte> image);
std::unique_ptr<sab_plan> read_epoch_plan(std::span<const std::byte> image, std::string_view name);

}  // namespace sab
