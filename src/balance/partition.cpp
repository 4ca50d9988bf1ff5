#include "balance/partition.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/bits.h"
#include "base/callback.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/sorting.h"
#include "sizes/sizes.h"

namespace sab {
namespace {

constexpr uint32_t no_item = 0xFFFFFFFFu;
constexpr std::size_t most_work = std::size_t{1} << 26;  // a second or two
constexpr std::size_t most_skipped = 8;                  // parts without room, an item
constexpr std::size_t most_singles = 64;                 // items tried against ranges of others

/// Parts by loads that only grow: those in the heap may be behind.
class LeastLoads {
public:
    struct Load {
        double load;
        uint32_t part;
        bool operator<(const Load& other) const {
            // Without a branch, which would be mispredicted. No load is below 0.
            const uint64_t ours = bits_of(load), theirs = bits_of(other.load);
            return static_cast<int>(ours > theirs) |
                   (static_cast<int>(ours == theirs) & static_cast<int>(part > other.part));
        }
    };

    explicit LeastLoads(const std::vector<double>& loads) : loads_(loads) {
        for (const double load : loads)
            heap_.push_back({load, static_cast<uint32_t>(heap_.size())});
    }

    /// Puts the part with the least load first, without those that are not open; false when none is
    /// left.
    template <class IsOpen>
    bool settle(IsOpen&& is_open) {
        while (!heap_.empty()) {
            const auto [load, part] = first();
            if (!is_open(part)) {
                take();
            } else if (load != loads_[part]) {
                replace_first(std::span(heap_), {loads_[part], part}, std::less<>());
            } else {
                return true;
            }
        }
        return false;
    }

    const Load& first() const { return heap_.front(); }
    Load take() {
        std::pop_heap(heap_.begin(), heap_.end());
        const Load load = heap_.back();
        heap_.pop_back();
        return load;
    }
    void add(const Load& load) {
        heap_.push_back(load);
        std::push_heap(heap_.begin(), heap_.end());
    }

private:
    const std::vector<double>& loads_;
    std::vector<Load> heap_;
};

}  // namespace

bool are_whole(std::span<const double> numbers) {
    constexpr double exact = 9007199254740992.0;  // 2^53
    return std::accumulate(numbers.begin(), numbers.end(), 0.0) < exact &&
           std::ranges::all_of(
               numbers,
               [](double each) { return each == static_cast<double>(static_cast<int64_t>(each)); });
}

double rounding_share(std::size_t count) {
    return 0x1p-50 * static_cast<double>(count + 1);
}

bool is_impossible(std::span<const double> weights, uint64_t parts, double capacity) {
    if (std::ranges::any_of(weights, [&](double each) { return each > capacity; })) return true;
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0),
                 room = static_cast<double>(parts) * capacity;
    return sum > room && (are_whole(weights) || sum - room > room * rounding_share(weights.size()));
}

bool Partitioner::partition(std::span<const double> costs, std::span<const double> weights,
                            const PartitionRules& rules, std::span<uint32_t> part_of) {
    if (!weights.empty() && is_impossible(weights, rules.parts, rules.capacity)) return false;
    costs_ = costs;
    weights_ = weights;
    rules_ = rules;
    part_of_ = part_of;
    unreported_ = done_ = 0;
    by_cost_ = rules.by_cost;
    if (by_cost_.empty())
        by_cost_ = sorted_ = by_descending(costs, [this](std::size_t items) { worked(items); });
    whole_ = are_whole(costs);
    slack_ = are_whole(weights) ? 0 : rules.capacity * rounding_share(weights.size());
    if (parts_.size() < rules.parts) parts_.resize(rules.parts);

    bool is_found = rules.is_longest_first ? longest_first() || differencing()
                                           : differencing() || longest_first();
    // without, a tight capacity may be found that only rounding stands against
    for (const double slack : {0.0, slack_}) {
        if (is_found) break;
        if (!best_fit(slack)) continue;
        collect_items();
        is_found = keeps_capacity();
    }
    if (!is_found) return false;
    collect_items();
    improve();
    return true;
}

void Partitioner::report_work() {
    constexpr uint64_t usual_work = 12;  // an item: sorted, joined, listed, moved
    done_ += std::exchange(unreported_, 0);
    const uint64_t total = usual_work * (costs_.size() + rules_.parts);
    report_progress(std::min(done_, total), total);
}

// Karmarkar and Karp's largest differencing method. Only parts that have items are kept, so the
// many joins of a growing state with one more item cost next to nothing; there is never more than
// one state that has fewer parts than asked for and more than one (its spread is its costliest
// part, which no item still to come exceeds), so the blocks are about as many as the items fill. A
// full state is a heap, so what it takes in costs by its own size.

/// False when the assignment, also repaired, is not under the capacity. With equal counts, where
/// differencing begins with whole rows of neighbours, longest first is often the better start, and
/// costs little.
bool Partitioner::differencing() {
    difference();
    if (weights_.empty() && !rules_.equal_counts) return true;
    collect_items();
    if (!keeps_capacity() && !repair()) return false;
    if (!rules_.equal_counts) return true;
    const double largest = largest_cost();
    kept_.assign(part_of_.begin(), part_of_.end());
    if (longest_first()) {
        collect_items();
        if (largest_cost() < largest) return true;
    }
    std::ranges::copy(kept_, part_of_.begin());
    return true;
}

void Partitioner::difference() {
    const auto count = static_cast<uint32_t>(costs_.size());
    const auto parts = static_cast<uint32_t>(rules_.parts);
    if (count == 0) return;
    width_ = std::min(count, parts);
    next_.assign(count, no_item);
    last_.resize(count);
    std::iota(last_.begin(), last_.end(), 0u);
    sum_.assign(costs_.begin(), costs_.end());
    slots_.clear();
    free_blocks_.clear();
    heap_.clear();

    // Joined first: the largest spread, then the largest part, then the most parts; then by block,
    // which is any order that is always the same.
    const auto after = [](const State& a, const State& b) {
        if (a.spread != b.spread) return a.spread < b.spread;
        if (a.largest != b.largest) return a.largest < b.largest;
        if (a.slots != b.slots) return a.slots < b.slots;
        return a.block > b.block;
    };
    const auto push = [&](const State& state) {
        heap_.push_back(state);
        std::ranges::push_heap(heap_, after);
    };
    const auto pop = [&] {
        std::ranges::pop_heap(heap_, after);
        const State state = heap_.back();
        heap_.pop_back();
        return state;
    };

    uint32_t single = 0;  // states of one item are not in the heap: they come by cost
    if (rules_.equal_counts) {
        for (; single < count; single += parts) {
            const uint32_t block = new_block();
            std::reverse_copy(by_cost_.begin() + single, by_cost_.begin() + single + parts,
                              slots_of(block));
            push(full(block, costs_[by_cost_[single]], true));
        }
    }
    const auto spread_of_single = [&] { return parts > 1 ? costs_[by_cost_[single]] : 0; };
    const auto is_single_first = [&] {
        return single < count && (heap_.empty() || spread_of_single() > heap_.front().spread);
    };
    const auto open_single = [&] {
        const uint32_t block = new_block(), item = by_cost_[single++];
        *slots_of(block) = item;
        return parts == 1 ? full(block, costs_[item], true)
                          : State{costs_[item], costs_[item], 1, block, true};
    };
    while (heap_.size() + (count - single) > 1) {
        const State first = is_single_first() ? open_single() : pop();
        worked(1);
        push(heap_.empty() || is_single_first() ? merge(first, by_cost_[single++])
                                                : merge(first, pop()));
    }
    const State all = heap_.empty() ? open_single() : heap_.front();
    std::sort(slots_of(all.block), slots_of(all.block) + all.slots,
              [&](uint32_t a, uint32_t b) { return before(a, b); });
    for (uint32_t slot = 0; slot < all.slots; ++slot) {
        for (uint32_t item = slots_[std::size_t{all.block} * width_ + slot]; item != no_item;
             item = next_[item]) {
            part_of_[item] = slot;
            worked(1);
        }
    }
}

uint32_t Partitioner::new_block() {
    if (!free_blocks_.empty()) {
        const uint32_t block = free_blocks_.back();
        free_blocks_.pop_back();
        return block;
    }
    slots_.resize(slots_.size() + width_);
    return static_cast<uint32_t>(slots_.size() / width_ - 1);
}

bool Partitioner::before(uint32_t a, uint32_t b) const {
    return sum_[a] != sum_[b] ? sum_[a] > sum_[b] : a < b;
}

uint32_t* Partitioner::slots_of(uint32_t block) {
    return slots_.data() + std::size_t{block} * width_;
}

Partitioner::State Partitioner::full(uint32_t block, double largest, bool is_sorted) {
    return {largest - sum_[*slots_of(block)], largest, static_cast<uint32_t>(rules_.parts), block,
            is_sorted};
}

void Partitioner::join(uint32_t part, uint32_t other) {
    next_[last_[part]] = other;
    last_[part] = last_[other];
    sum_[part] += sum_[other];
}

/// The item goes to the cheapest part.
Partitioner::State Partitioner::merge(const State& state, uint32_t item) {
    uint32_t* const slots = slots_of(state.block);
    if (state.slots == rules_.parts) {
        const uint32_t part = *slots;
        join(part, item);
        // the first of the heap is the cheapest
        replace_first(std::span(slots, rules_.parts), part,
                      [this](uint32_t a, uint32_t b) { return before(a, b); });
        return full(state.block, std::max(state.largest, sum_[part]), false);
    }
    slots[state.slots] = item;
    if (state.slots + 1 < rules_.parts)
        return {state.spread, state.largest, state.slots + 1, state.block, true};
    std::reverse(slots, slots + rules_.parts);
    return full(state.block, state.largest, true);
}

/// The costliest part of the one takes the cheapest of the other, and so on. One of them is full.
Partitioner::State Partitioner::merge(const State& a, const State& b) {
    uint32_t* const left = slots_of(a.block);
    uint32_t* const right = slots_of(b.block);
    const auto parts = static_cast<uint32_t>(rules_.parts);
    const auto is_cheaper = [&](uint32_t x, uint32_t y) { return before(y, x); };
    const bool is_full = a.slots == parts;
    double largest = 0;
    if (is_full && b.slots == parts) {
        if (!a.is_sorted) std::sort(left, left + parts, is_cheaper);
        if (!b.is_sorted) std::sort(right, right + parts, is_cheaper);
        for (uint32_t i = 0; i < parts; ++i) join(left[i], right[parts - 1 - i]);
        std::sort(left, left + parts, is_cheaper);
        worked(parts);
        free_blocks_.push_back(b.block);
        return full(a.block, sum_[left[parts - 1]], true);
    }
    const State &large = is_full ? a : b, &small = is_full ? b : a;
    uint32_t* const heap = is_full ? left : right;
    uint32_t* const taken = is_full ? right : left;
    const auto is_after = [&](uint32_t x, uint32_t y) { return before(x, y); };
    for (uint32_t i = 0; i < small.slots; ++i) {
        std::pop_heap(heap, heap + parts - i, is_after);
        const uint32_t cheapest = heap[parts - 1 - i];
        const uint32_t part = is_full ? cheapest : taken[i];
        join(part, is_full ? taken[i] : cheapest);
        largest = std::max(largest, sum_[part]);
        heap[parts - 1 - i] = part;
    }
    for (uint32_t i = small.slots; i-- > 0;) std::push_heap(heap, heap + parts - i, is_after);
    free_blocks_.push_back(small.block);
    return full(large.block, std::max(large.largest, largest), false);
}

/// Each item to the part that costs least so far and has room; to the lightest, once too many were
/// without room.
bool Partitioner::longest_first() {
    const auto parts = static_cast<uint32_t>(rules_.parts);
    std::vector<double> cost(parts), held(weights_.empty() ? 0 : parts);
    std::vector<uint32_t> free_slots(rules_.equal_counts ? parts : 0,
                                     static_cast<uint32_t>(costs_.size() / parts));
    std::size_t work = most_skipped * costs_.size();
    LeastLoads by_cost(cost), by_weight(held);
    std::vector<LeastLoads::Load> without_room;
    const auto is_open = [&](uint32_t part) { return free_slots.empty() || free_slots[part] > 0; };
    for (const uint32_t item : by_cost_) {
        const auto fits = [&](uint32_t part) {
            return held.empty() || held[part] == 0 ||
                   held[part] + weights_[item] + slack_ <= rules_.capacity;
        };
        bool is_found = by_cost.settle(is_open);
        while (is_found && work > 0 && !fits(by_cost.first().part)) {
            without_room.push_back(by_cost.take());
            is_found = by_cost.settle(is_open);
            --work;
        }
        uint32_t part = is_found ? by_cost.first().part : no_item;
        if (!is_found || !fits(part)) {
            if (!by_weight.settle(is_open) || !fits(by_weight.first().part)) return false;
            part = by_weight.first().part;
        }
        part_of_[item] = part;
        cost[part] += costs_[item];
        if (!held.empty()) held[part] += weights_[item];
        if (!free_slots.empty()) --free_slots[part];
        for (const LeastLoads::Load& each : without_room) by_cost.add(each);
        worked(1 + without_room.size());
        without_room.clear();
    }
    return true;
}

void Partitioner::change_load(PartsByLoad& parts_by_load, uint32_t part, double from, double to,
                              bool stays) {
    auto node = parts_by_load.extract({from, part});
    if (!stays) return;
    node.value().first = to;
    parts_by_load.insert(std::move(node));
}

/// Each item, heaviest first, to the part with the least room that suffices: balance comes later.
bool Partitioner::best_fit(double slack) {
    std::vector<uint32_t> by_weight(by_cost_.begin(), by_cost_.end());
    std::ranges::stable_sort(by_weight,
                             [&](uint32_t a, uint32_t b) { return weights_[a] > weights_[b]; });
    const auto last = static_cast<uint32_t>(rules_.parts - 1);
    // of parts counted from the last, so that the first one is found among those equally full
    PartsByLoad open;
    for (uint32_t part = 0; part <= last; ++part) open.emplace_hint(open.end(), 0, part);
    std::vector<uint64_t> free_slots(
        rules_.parts, rules_.equal_counts ? costs_.size() / rules_.parts : costs_.size());
    for (const uint32_t item : by_weight) {
        const double weight = weights_[item];
        auto after = open.upper_bound({rules_.capacity - slack - weight, last});
        while (after != open.begin() && std::prev(after)->first + weight + slack > rules_.capacity)
            after = open.lower_bound({std::prev(after)->first, 0});
        if (after == open.begin()) after = open.upper_bound({0, last});  // alone it is no sum
        if (after == open.begin()) return false;
        const auto [held, part] = *std::prev(after);
        part_of_[item] = last - part;
        change_load(open, part, held, held + weight, --free_slots[last - part] > 0);
        worked(1);
    }
    return true;
}

// What follows works on the parts with their items, `parts_`, and keeps `part_of_` along.

void Partitioner::collect_items() {
    for (Part& part : open_parts()) part.items.clear();
    for (const uint32_t item : by_cost_) {
        parts_[part_of_[item]].items.push_back(item);
        worked(1);
    }
    for (Part& part : open_parts()) {
        count(part);
        worked(part.items.size());
    }
}

void Partitioner::count(Part& part) const {
    part.cost = part.weight = 0;
    for (const uint32_t item : part.items) {
        part.cost += costs_[item];
        part.weight += weight(item);
    }
}

std::span<Partitioner::Part> Partitioner::open_parts() {
    return std::span(parts_).first(rules_.parts);
}

/// Parts that cost, or weigh, least first.
Partitioner::PartsByLoad Partitioner::sorted_parts(double Part::* load) {
    std::vector<std::pair<double, uint32_t>> parts(rules_.parts);
    for (uint32_t part = 0; part < rules_.parts; ++part) parts[part] = {parts_[part].*load, part};
    std::ranges::sort(parts);
    return PartsByLoad(parts.begin(), parts.end());
}

double Partitioner::largest_cost() {
    return std::ranges::max_element(open_parts(), {}, &Part::cost)->cost;
}

bool Partitioner::keeps_capacity() {
    if (weights_.empty()) return true;
    return std::ranges::all_of(open_parts(),
                               [&](const Part& part) { return keeps_capacity(part); });
}

/// Whether its weights, added up in the order of the items, are within the capacity.
bool Partitioner::keeps_capacity(const Part& part) const {
    if (part.weight + slack_ <= rules_.capacity) return true;
    if (part.weight - slack_ > rules_.capacity) return false;
    std::vector<uint32_t> items = part.items;
    std::ranges::sort(items);
    double sum = 0;
    for (const uint32_t item : items) sum += weight(item);
    return sum <= rules_.capacity;
}

void Partitioner::put(uint32_t item, Part& part) {
    const auto is_before = [&](uint32_t a, uint32_t b) {
        return costs_[a] != costs_[b] ? costs_[a] > costs_[b] : a < b;
    };
    const auto place = std::ranges::lower_bound(part.items, item, is_before);
    part.items.insert(place, item);
    part_of_[item] = static_cast<uint32_t>(&part - parts_.data());
}

void Partitioner::apply(const Exchange& exchange, uint32_t from, uint32_t to, double Part::* load,
                        PartsByLoad& parts_by_load) {
    const auto take_out = [](Part& part, const ItemRange& range) {
        const auto first = part.items.begin() + static_cast<std::ptrdiff_t>(range.first),
                   end = first + static_cast<std::ptrdiff_t>(range.count);
        const std::vector<uint32_t> items(first, end);
        part.items.erase(first, end);
        return items;
    };
    const std::vector<uint32_t> given = take_out(parts_[from], exchange.given),
                                taken = take_out(parts_[to], exchange.taken);
    for (const uint32_t item : taken) put(item, parts_[from]);
    for (const uint32_t item : given) put(item, parts_[to]);
    for (const uint32_t part : {from, to}) {
        const double before = parts_[part].*load;
        count(parts_[part]);
        change_load(parts_by_load, part, before, parts_[part].*load);
    }
}

/// Lowers the costliest part while that can be done, by an item at a time that goes to a cheaper
/// part, perhaps for a smaller one. Cheapest parts first.
void Partitioner::improve() {
    const std::span<Part> parts = open_parts();
    const double mean =
        std::accumulate(costs_.begin(), costs_.end(), 0.0) / static_cast<double>(parts.size());
    // less is of no use, or cannot be had of whole numbers
    const double enough = std::max(mean * 1e-5, whole_ ? 1.0 : 0.0);
    if (largest_cost() - mean < enough) return;
    // items looked at
    std::size_t work = std::min(
        (weights_.empty() ? 64 : rules_.looks) * (costs_.size() + parts.size()), most_work);
    // memory is the less at hand, the more there is
    const std::size_t try_work = std::bit_width(parts.size()), exchange_work = try_work * try_work;
    PartsByLoad by_cost = sorted_parts(&Part::cost);
    for (bool lowered = true; lowered;) {
        const uint32_t costliest = by_cost.rbegin()->second;
        const Part& from = parts[costliest];
        if (from.cost - mean < enough) return;
        // one item that costs most
        if (from.items.size() <= 1) return;
        lowered = false;
        for (const auto& [cost, cheap] : by_cost) {
            const Part& to = parts[cheap];
            const std::size_t ours = from.items.size(), theirs = to.items.size(),
                              looked_at = ours + theirs + try_work;
            if (cost >= from.cost || work < looked_at) break;
            work -= looked_at;
            worked(looked_at);
            Exchange exchange = best_exchange(from, to);
            const std::size_t pairs =
                std::min(ours, most_singles) * theirs + std::min(theirs, most_singles) * ours;
            if (!exchange.is_found() && !weights_.empty() && !rules_.equal_counts &&
                pairs <= work) {
                work -= pairs;
                worked(pairs);
                exchange = best_exchange_of_ranges(from, to);
            }
            if (!exchange.is_found()) continue;
            work -= std::min(work, ours + theirs + exchange_work);
            apply(exchange, costliest, cheap, &Part::cost, by_cost);
            lowered = true;
            break;
        }
    }
}

/// The exchange after which the costlier of the two parts costs least, if less than before. The
/// difference that changes sides should be half of what the parts differ by; for each item given,
/// those that differ from it by about that are looked at.
Partitioner::Exchange Partitioner::best_exchange(const Part& from, const Part& to) const {
    const double gap = from.cost - to.cost;
    const double least = whole_ ? 0 : from.cost * 1e-12;  // a gain below that could be rounding
    Exchange best;
    best.score = gap / 2 - least;  // distance from half of the gap
    const auto consider = [&](std::size_t given, std::size_t taken, std::size_t taken_count) {
        const double moved =
            costs_[from.items[given]] - (taken_count > 0 ? costs_[to.items[taken]] : 0);
        const double score = std::abs(moved - gap / 2);
        if (score >= best.score) return;
        const double heavier =
            weight(from.items[given]) - (taken_count > 0 ? weight(to.items[taken]) : 0);
        if (!weights_.empty() &&
            std::max(to.weight + heavier, from.weight - heavier) + slack_ > rules_.capacity)
            return;
        best = {{given, 1}, {taken, taken_count}, score};
    };
    // a neighbour may fit under the capacity where the nearest does not
    const std::size_t reach = weights_.empty() ? 1 : 8;
    std::size_t near = 0;
    for (std::size_t given = 0; given < from.items.size(); ++given) {
        if (!rules_.equal_counts) consider(given, 0, 0);
        const double wanted = costs_[from.items[given]] - gap / 2;
        // both are sorted
        while (near < to.items.size() && costs_[to.items[near]] > wanted) ++near;
        for (std::size_t taken = near < reach ? 0 : near - reach;
             taken < std::min(near + reach, to.items.size()); ++taken)
            consider(given, taken, 1);
    }
    return best;
}

/// Under a tight capacity nothing moves one by one: an item that costs much for its weight goes for
/// several that together weigh about as much and cost less, or the other way round. Those several
/// are neighbours by cost.
Partitioner::Exchange Partitioner::best_exchange_of_ranges(const Part& from, const Part& to) const {
    const double gap = from.cost - to.cost;
    Exchange best;
    best.score = gap / 2 - (whole_ ? 0 : from.cost * 1e-12);
    const auto search = [&](const Part& singles, const Part& ranges, bool gives_single) {
        const std::size_t stride = singles.items.size() / most_singles + 1;
        for (std::size_t single = 0; single < singles.items.size(); single += stride) {
            const uint32_t one = singles.items[single];
            // a range, for both to stay under the capacity
            const double lightest = ranges.weight + weight(one) - rules_.capacity + slack_;
            const double heaviest = rules_.capacity - singles.weight + weight(one) - slack_;
            double range_cost = 0, range_weight = 0;
            std::size_t end = 0;
            for (std::size_t first = 0; first < ranges.items.size(); ++first) {
                for (; end < ranges.items.size() && (range_weight < lightest || end <= first);
                     ++end) {
                    range_cost += costs_[ranges.items[end]];
                    range_weight += weight(ranges.items[end]);
                }
                if (range_weight < lightest) break;
                const double score = std::abs(
                    (gives_single ? costs_[one] - range_cost : range_cost - costs_[one]) - gap / 2);
                if (range_weight <= heaviest && score < best.score)
                    best = gives_single ? Exchange{{single, 1}, {first, end - first}, score}
                                        : Exchange{{first, end - first}, {single, 1}, score};
                range_cost -= costs_[ranges.items[first]];
                range_weight -= weight(ranges.items[first]);
            }
        }
    };
    search(from, to, true);
    search(to, from, false);
    return best;
}

/// Brings parts that are too heavy under the capacity, as far as the lightest parts have room;
/// false when some stay too heavy.
bool Partitioner::repair() {
    constexpr std::size_t tried_parts = 8;
    const std::size_t try_work = std::bit_width(rules_.parts), exchange_work = try_work * try_work;
    // items and pairs of them looked at
    std::size_t work = std::min(256 * costs_.size(), most_work);
    PartsByLoad by_weight = sorted_parts(&Part::weight);
    while (work > 0) {
        const uint32_t heaviest = by_weight.rbegin()->second;
        const Part& from = parts_[heaviest];
        if (from.weight + slack_ <= rules_.capacity) return true;
        Exchange best;
        uint32_t best_to = 0;
        auto light = by_weight.begin();
        for (std::size_t tried = 0;
             tried < tried_parts && light != by_weight.end() && light->first < rules_.capacity;
             ++tried, ++light) {
            const Part& to = parts_[light->second];
            const std::size_t pairs = from.items.size() * to.items.size();
            const Exchange exchange = best_relief(from, to, pairs <= work);
            const std::size_t looked_at =
                from.items.size() + try_work + (pairs <= work ? pairs : 0);
            work -= std::min(work, looked_at);
            worked(looked_at);
            if (!exchange.is_found() || (best.is_found() && exchange.score >= best.score)) continue;
            best = exchange;
            best_to = light->second;
        }
        if (!best.is_found()) return keeps_capacity();
        work -= std::min(work, from.items.size() + parts_[best_to].items.size() + exchange_work);
        apply(best, heaviest, best_to, &Part::weight, by_weight);
    }
    return keeps_capacity();
}

/// The exchange that takes most of what `from` weighs too much, and among those that take all of it
/// the one after which the costlier part costs least.
Partitioner::Exchange Partitioner::best_relief(const Part& from, const Part& to,
                                               bool with_swaps) const {
    const double excess = from.weight - rules_.capacity;
    Exchange best;
    const auto consider = [&](std::size_t given, std::size_t taken, std::size_t taken_count) {
        const double lighter =
            weight(from.items[given]) - (taken_count > 0 ? weight(to.items[taken]) : 0);
        if (lighter <= 0 || to.weight + lighter + slack_ > rules_.capacity) return;
        const double moved =
            costs_[from.items[given]] - (taken_count > 0 ? costs_[to.items[taken]] : 0);
        // Costs count from 0 up, what stays too heavy for more than any of them.
        const double costlier =
            std::max(from.cost - moved, to.cost + moved) / (from.cost + to.cost + 1);
        const double score = costlier + 2 * std::max(0.0, excess - lighter) / excess;
        if (!best.is_found() || score < best.score)
            best = {{given, 1}, {taken, taken_count}, score};
    };
    for (std::size_t given = 0; given < from.items.size(); ++given) {
        if (!rules_.equal_counts) consider(given, 0, 0);
        for (std::size_t taken = 0; with_swaps && taken < to.items.size(); ++taken)
            consider(given, taken, 1);
    }
    return best;
}

}  // namespace sab
