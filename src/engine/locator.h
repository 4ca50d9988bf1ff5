#pragma once
/// Where samples are in an epoch: the inverse of an order of batches.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sab/engine.h"
#include "sampler/cost_order.h"
#include "sampler/cursor.h"
#include "sampler/sampler_options.h"

namespace sab {

/// What the orders have in common. A derived class finds the batches of a sample, and this one
/// finds the ranks that take them.
class Locator {
public:
    virtual ~Locator() = default;

    /// Batches that each rank takes in the epoch.
    uint64_t batch_count() const { return batch_count_; }
    std::size_t columns() const { return columns_; }
    /// Fills the arrays that are not null. `sources`: null where the samples have none. `sizes`: of
    /// each sample one a column. `which`: may be null. Refuses samples that there are not, before
    /// anything is filled.
    void locate(const uint32_t* sources, std::span<const double> sizes,
                std::span<const uint64_t> numbers, const uint64_t* which,
                const sab_places& out) const;

protected:
    /// The batches of a place of the order.
    struct Appearances {
        uint32_t count;        ///< at most 2
        uint64_t position[2];  ///< of the batches; find_batches() gives ids
        uint64_t slot[2];
    };
    static constexpr std::size_t block = 128;

    /// A sample among those of the same sizes.
    struct Found {
        uint64_t count;    ///< samples with these sizes; may be 0
        uint64_t key = 0;  ///< its place in the order, or what find_places() needs
    };

    /// `owner` has the sizes, in messages.
    Locator(std::unique_ptr<Sequence> sequence, CostOrder order, const SamplerOptions& options,
            std::string_view owner);

    /// The sample with these sizes, one a column, and this number within them.
    virtual Found find(uint64_t source, const double* sizes, uint64_t number) const = 0;
    /// From the keys and the numbers of at most `block` samples: fills `places` with their places
    /// in the order, `turns` for each sample.
    virtual void find_places(std::span<const uint64_t> keys, std::span<const uint64_t>,
                             std::vector<uint64_t>& places, uint64_t* turns) const {
        places.assign(keys.begin(), keys.end());
        std::fill_n(turns, keys.size(), uint64_t{1});
    }
    /// Of at most `block` places. Cannot fail.
    virtual void find_batches(std::span<const uint64_t> places, Appearances* found) const = 0;
    /// Replaces the ids of batches by their positions.
    virtual void find_positions(std::span<uint64_t> ids) const { order_.positions_of(ids); }
    /// Index of the last of these numbers, which ascend, that is at most `number`, or 0.
    template <class Number>
    static std::size_t last_at_most(std::span<const Number> numbers, Number number) {
        const Number* first = numbers.data();
        for (std::size_t left = numbers.size(); left > 1;) {  // without branches
            const std::size_t half = left / 2;
            first = first[half] <= number ? first + half : first;
            left -= half;
        }
        return static_cast<std::size_t>(first - numbers.data());
    }

    /// The same of several numbers, at most `block`, side by side, so that none waits for the
    /// memory.
    static void last_at_most(std::span<const uint64_t> numbers, std::span<const uint64_t> which,
                             std::size_t* found) {
        std::fill_n(found, which.size(), std::size_t{0});
        for (std::size_t left = numbers.size(); left > 1;) {
            const std::size_t half = left / 2;
            for (std::size_t i = 0; i < which.size(); ++i)
                found[i] += numbers[found[i] + half] <= which[i] ? half : 0;
            left -= half;
        }
    }

    /// last_at_most() where the order is by size. `first_places`: of each distinct size; one more
    /// at the end.
    template <class Place>
    static Found find_by_size(double size, uint64_t number, std::span<const double> distinct_sizes,
                              std::span<const Place> first_places) {
        const std::size_t found = last_at_most(distinct_sizes, size);
        const uint64_t begin = first_places[found];
        return {distinct_sizes[found] == size ? first_places[found + 1] - begin : 0,
                begin + number};
    }
    /// A last step that is full is taken as other steps are: its batches are not divided.
    void keep_full_step() {
        uint64_t batches = 0;
        for (const DividedRun& run : last_runs_) batches += run.batches;
        if (batches == options_.world_size) last_runs_.clear();
    }
    /// Asks the memory for an object that is needed soon.
    template <class Object>
    static void prefetch(const Object& object) {
        for (std::size_t byte = 0; byte < sizeof(Object); byte += 64)
            __builtin_prefetch(reinterpret_cast<const char*>(&object) + byte);
    }

    CostOrder order_;

private:
    /// Where a rank takes a sample.
    struct Taken {
        uint64_t rank, batch, slot;
    };
    /// Where a batch has a sample.
    struct Slot {
        uint64_t position, slot;
    };
    std::vector<uint64_t> find_all(const uint32_t* sources, std::span<const double> sizes,
                                   std::span<const uint64_t> numbers) const;
    Taken taken(uint64_t position, uint64_t slot) const;
    void write(std::span<Slot> slots, uint64_t asked, std::size_t i, const sab_places& out) const;

    SamplerOptions options_;
    std::string_view owner_;
    std::size_t columns_;
    uint64_t batch_count_ = 0;
    uint64_t limit_ = 0;  ///< positions that the ranks take, with those that they repeat
    std::vector<DividedRun> last_runs_{};    ///< of the last step, where it is divided
    std::vector<uint64_t> pieces_before_{};  ///< of the runs before
};

}  // namespace sab
