/// The inverses of permutations and of the order of batches, many at a time. Only the engine room
/// calls them, so builds without it are without this file.
#include <algorithm>

#include "sampler/cost_order.h"
#include "sampler/quadratic.h"

namespace sab {

/// The rounds of `lanes` permutations, once each, side by side: a round waits for several products.
template <int bits>
void Permutation::unapply(const Permutation* const* permutations, uint64_t* values) {
    const auto unshifted = [](const Rounds& keys, uint64_t shifted) {
        shifted &= keys.mask;
        return shifted ^ (shifted >> keys.shift) ^ (shifted >> (2 * keys.shift));
    };
    uint64_t x[lanes];
    for (int k = 0; k < lanes; ++k) x[k] = values[k];
    for (int r = rounds; r > 0; --r)
        for (int k = 0; k < lanes; ++k) {
            const Rounds& keys = permutations[k]->keys_;
            x[k] = inverse_quadratic<bits>(unshifted(keys, x[k])) - keys.add[r];
        }
    for (int k = 0; k < lanes; ++k) {
        const Rounds& keys = permutations[k]->keys_;
        values[k] = (unshifted(keys, x[k]) - keys.add[0]) & keys.mask;
    }
}

void Permutation::invert(std::span<const Permutation* const> permutations,
                         std::span<uint64_t> values) {
    constexpr std::size_t block = 128;
    for (std::size_t first = 0; first < values.size(); first += block) {
        const std::size_t size = std::min(block, values.size() - first);
        uint16_t left[block];  // values that are still outside
        std::size_t count = 0;
        bool is_wide = false;
        for (std::size_t i = first; i < first + size; ++i) {
            const Permutation& own = *permutations[i];
            if (own.count_ <= table_count || own.keys_.rounds != rounds) {
                values[i] = own.inverse(values[i]);
            } else {
                is_wide |= own.keys_.mask >> 32 != 0;
                left[count++] = static_cast<uint16_t>(i - first);
            }
        }
        while (count >= lanes) {
            std::size_t still = 0, done = 0;
            for (; done + lanes <= count; done += lanes) {
                const Permutation* own[lanes];
                uint64_t x[lanes];
                for (int k = 0; k < lanes; ++k) {
                    own[k] = permutations[first + left[done + k]];
                    x[k] = values[first + left[done + k]];
                }
                is_wide ? unapply<48>(own, x) : unapply<32>(own, x);
                for (int k = 0; k < lanes; ++k) {
                    const uint16_t at = left[done + k];
                    values[first + at] = x[k];
                    left[still] = at;
                    still += x[k] >= own[k]->count_;
                }
            }
            for (; done < count; ++done) left[still++] = left[done];
            count = still;
        }
        while (count > 0) {
            const std::size_t i = first + left[--count];
            values[i] = permutations[i]->inverse(values[i]);
        }
    }
}

std::vector<CostOrder::ClassIds> CostOrder::class_ids() const {
    std::vector<ClassIds> ids(classes_.size());
    const uint64_t first = costliest_steps_ * epoch_options_.step_batches;
    uint64_t begin = 0;
    for (const IdRange& range : ranges_) {
        ClassIds& own = ids[range.batch_class];
        const uint64_t end = range.first + (range.end_id - begin);
        if (range.end_id <= first) {
            own.costliest = begin;
            own.head = own.split = end;
        } else if (range.end_id <= full_step_batches_) {
            own.first = begin;
            own.split = end;
        } else {
            own.last = begin;
        }
        begin = range.end_id;
    }
    return ids;
}

/// The inverse of step_at().
uint64_t CostOrder::place_of(uint64_t part, uint64_t number) const {
    const uint64_t parts = parts_.size(), over = steps() % parts;
    return number * parts + (number < steps() / parts
                                 ? Permutation(parts, mix(micro_steps_key_ ^ number)).inverse(part)
                                 : part * over / parts);
}

/// The steps are permuted: each half of the epoch takes one of every two neighbours, as the key
/// decides, and so on inside the halves. So of any steps in a row, any part of the epoch has its
/// share, give or take about one. Level by level, since a level waits for the one before.
void CostOrder::even_positions_of(std::span<uint64_t> ids) const {
    constexpr std::size_t block = 128;
    constexpr uint64_t levels = 4;  // that take their bits from one random number
    // of an id: step `number` of `size` that have the places from `begin` on
    uint64_t number[block], begin[block], size[block], random[block], low[block];
    uint64_t* of[block];
    const uint64_t in_step = epoch_options_.step_batches, first = costliest_steps_ * in_step,
                   steps = this->steps(),
                   key = permutation_key(epoch_options_.seed, epoch_options_.epoch, Purpose::steps,
                                         1);
    for (; !ids.empty(); ids = ids.subspan(std::min(block, ids.size()))) {
        std::size_t count = 0;
        for (uint64_t& id : ids.first(std::min(block, ids.size()))) {
            if (id < first || id >= full_step_batches_) continue;
            number[count] = (id - first) / in_step;
            id -= number[count] * in_step;
            begin[count] = 0;
            size[count] = steps;
            of[count++] = &id;
        }
        for (uint64_t level = 0; steps >> level > 0; ++level) {
            const uint64_t turn = level % levels;
            for (std::size_t i = 0; turn == 0 && i < count; ++i) {
                random[i] = mix(key ^ (begin[i] + (number[i] >> levels)) ^ (level << 56));
                low[i] = number[i] % (1 << levels);
            }
            for (std::size_t i = 0; i < count; ++i) {
                // Without branches, which would be mispredicted. `low` has the bits that are left,
                // and above them the halves that were taken.
                const uint64_t pair = number[i] / 2, late_size = size[i] / 2,
                               early_size = size[i] - late_size,
                               bits = random[i] >> (8 * turn + low[i] / 2) ^ low[i],
                               // 1 or 0; the last of an odd number has no neighbour
                    late = bits & (pair - late_size) >> 63;
                low[i] = low[i] / 2 | late << (levels - 1);
                begin[i] += early_size & (0 - late);
                size[i] = early_size - (size[i] & late);
                number[i] = pair;
            }
        }
        for (std::size_t i = 0; i < count; ++i) *of[i] += begin[i] * in_step;
    }
}

void CostOrder::positions_of(std::span<uint64_t> ids) const {
    const uint64_t in_step = epoch_options_.step_batches,
                   first_of_steps = costliest_steps_ * in_step;
    constexpr std::size_t block = 128;
    for (; !ids.empty(); ids = ids.subspan(std::min(block, ids.size()))) {
        uint16_t which[block];                 // of the ids that are not their positions
        uint64_t values[block], other[block];  // `other`: first of the band, then place in the step
        const Permutation* permutations[block];
        std::size_t count = 0;
        for (std::size_t i = 0; i < std::min(block, ids.size()); ++i) {
            if (ids[i] >= full_step_batches_ || ids[i] < first_of_steps) continue;
            const auto band = std::ranges::upper_bound(bands_, ids[i], {}, &Band::end_id);
            other[count] = band->end_id - band->batches.count();
            values[count] = ids[i] - other[count];
            permutations[count] = &band->batches;
            which[count++] = static_cast<uint16_t>(i);
        }
        Permutation::invert({permutations, count}, {values, count});
        uint64_t parts[block];
        for (std::size_t k = 0; k < count; ++k) {
            const uint64_t place = other[k] + values[k] - first_of_steps,
                           step = in_step == 1 ? place : place / in_step;
            other[k] = place - step * in_step;
            parts[k] = parts_.size() == 1 ? 0 : ((step + 1) * parts_.size() - 1) / steps();
            values[k] = step - (parts[k] == 0 ? 0 : first_of_part(parts[k]));
            permutations[k] = &parts_[parts[k]];
        }
        Permutation::invert({permutations, count}, {values, count});
        for (std::size_t k = 0; k < count; ++k) {
            const uint64_t step = parts_.size() == 1 ? values[k] : place_of(parts[k], values[k]);
            ids[which[k]] = first_of_steps + step * in_step + other[k];
        }
    }
}

}  // namespace sab
