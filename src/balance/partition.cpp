#include "balance/partition.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <queue>

namespace sab {
namespace {

constexpr uint32_t no_item = 0xFFFFFFFFu;
constexpr std::size_t most_work = std::size_t{1} << 26;  // a second or two
constexpr std::size_t most_singles = 64;  // items tried against runs of others

/// Whole numbers whose sum is exact in any order.
bool are_whole(std::span<const double> numbers) {
    constexpr double exact = 9007199254740992.0;  // 2^53
    return std::accumulate(numbers.begin(), numbers.end(), 0.0) < exact &&
           std::ranges::all_of(numbers, [](double each) { return each == std::floor(each); });
}

}  // namespace

bool Partitioner::partition(std::span<const double> costs, std::span<const double> weights, const PartitionRules& rules, std::span<uint32_t> part_of) {
    costs_ = costs;
    weights_ = weights;
    rules_ = rules;
    part_of_ = part_of;
    sort_by_cost();
    whole_ = are_whole(costs);
    slack_ = are_whole(weights) ? 0 : rules.capacity * 1e-12;
    if (parts_.size() < rules.parts) parts_.resize(rules.parts);

    const bool is_found = rules.method == SAB_PARTITION_LONGEST_FIRST ? longest_first() || differencing() : differencing() || longest_first();
    if (!is_found && !best_fit()) return false;
    gather();
    improve();
    return true;
}

/// By radix, as sorting would otherwise be the most of the work: falling costs are rising complements of their bits, since no cost is negative.
void Partitioner::sort_by_cost() {
    const std::size_t count = costs_.size();
    std::array<std::array<uint32_t, 256>, 8> digits{};
    keyed_.resize(count);
    sorted_.resize(count);
    for (uint32_t item = 0; item < count; ++item) {
        const uint64_t key = ~std::bit_cast<uint64_t>(costs_[item] + 0.0);
        keyed_[item] = {key, item};
        for (std::size_t d = 0; d < digits.size(); ++d) ++digits[d][(key >> (8 * d)) & 255];
    }
    for (std::size_t d = 0; d < digits.size(); ++d) {
        if (std::ranges::any_of(digits[d], [&](uint32_t n) { return n == count; })) continue;  // all alike in this digit
        std::array<uint32_t, 256> next{};
        for (std::size_t k = 1; k < next.size(); ++k) next[k] = next[k - 1] + digits[d][k - 1];
        for (const Keyed& each : keyed_) sorted_[next[(each.key >> (8 * d)) & 255]++] = each;
        keyed_.swap(sorted_);
    }
    by_cost_.resize(count);
    std::ranges::transform(keyed_, by_cost_.begin(), &Keyed::item);
}

// Karmarkar and Karp's largest differencing method. Only parts that have items are kept, so the many joins of a growing state with one more item cost
// next to nothing; there is never more than one state that has fewer parts than asked for and more than one (its spread is its costliest part, which
// no item still to come exceeds), so the blocks are about as many as the items fill.

/// False when the assignment, also repaired, is not under the capacity. With equal counts, where differencing begins with whole rows of neighbours,
/// longest first is often the better start, and costs little.
bool Partitioner::differencing() {
    difference();
    if (weights_.empty() && !rules_.equal_counts) return true;
    gather();
    if (!is_held() && !repair()) return false;
    if (!rules_.equal_counts) return true;
    const double largest = largest_cost();
    kept_.assign(part_of_.begin(), part_of_.end());
    if (longest_first()) {
        gather();
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

    // Joined first: the largest spread, then the largest part, then the most parts; then by block, which is any order that is always the same.
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
            std::copy_n(by_cost_.begin() + single, parts, slots_.begin() + std::ptrdiff_t{block} * width_);
            push(described(block, parts));
        }
    }
    const auto spread_of_single = [&] { return parts > 1 ? costs_[by_cost_[single]] : 0; };
    const auto is_single_first = [&] { return single < count && (heap_.empty() || spread_of_single() > heap_.front().spread); };
    const auto open_single = [&] {
        const uint32_t block = new_block();
        slots_[std::size_t{block} * width_] = by_cost_[single++];
        return described(block, 1);
    };
    while (heap_.size() + (count - single) > 1) {
        const State first = is_single_first() ? open_single() : pop();
        push(heap_.empty() || is_single_first() ? merge(first, by_cost_[single++]) : merge(first, pop()));
    }
    const State all = heap_.empty() ? open_single() : heap_.front();
    for (uint32_t slot = 0; slot < all.slots; ++slot)
        for (uint32_t item = slots_[std::size_t{all.block} * width_ + slot]; item != no_item; item = next_[item]) part_of_[item] = slot;
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

bool Partitioner::before(uint32_t a, uint32_t b) const { return sum_[a] != sum_[b] ? sum_[a] > sum_[b] : a < b; }

Partitioner::State Partitioner::described(uint32_t block, uint32_t slots) const {
    const uint32_t* first = slots_.data() + std::size_t{block} * width_;
    const double largest = sum_[first[0]];
    return {slots == rules_.parts ? largest - sum_[first[slots - 1]] : largest, largest, slots, block};
}

void Partitioner::join(uint32_t part, uint32_t other) {
    next_[last_[part]] = other;
    last_[part] = last_[other];
    sum_[part] += sum_[other];
}

/// The item goes to the cheapest part, which then moves up to its place.
Partitioner::State Partitioner::merge(const State& state, uint32_t item) {
    uint32_t* slots = slots_.data() + std::size_t{state.block} * width_;
    uint32_t count = state.slots;
    if (count < rules_.parts)
        slots[count++] = item;
    else
        join(slots[count - 1], item);
    uint32_t* const last = slots + count - 1;
    if (count > 1 && before(*last, last[-1])) {
        const auto is_before = [&](uint32_t x, uint32_t y) { return before(x, y); };
        std::rotate(std::lower_bound(slots, last, *last, is_before), last, last + 1);
    }
    return described(state.block, count);
}

/// The costliest part of the one takes the cheapest of the other, and so on.
Partitioner::State Partitioner::merge(const State& a, const State& b) {
    uint32_t* left = slots_.data() + std::size_t{a.block} * width_;
    const uint32_t* right = slots_.data() + std::size_t{b.block} * width_;
    const auto parts = static_cast<uint32_t>(rules_.parts);
    const uint32_t shared = a.slots + b.slots > parts ? a.slots + b.slots - parts : 0;  // parts with items of both
    for (uint32_t i = 0; i < shared; ++i) join(left[a.slots - shared + i], right[b.slots - 1 - i]);
    std::copy_n(right, b.slots - shared, left + a.slots);
    const uint32_t count = a.slots + b.slots - shared;
    std::sort(left, left + count, [&](uint32_t x, uint32_t y) { return before(x, y); });
    free_blocks_.push_back(b.block);
    return described(a.block, count);
}

/// Each item to the part that costs least so far and has room.
bool Partitioner::longest_first() {
    struct Load {
        double cost;
        uint32_t part;
        bool operator>(const Load& other) const { return cost != other.cost ? cost > other.cost : part > other.part; }
    };
    std::vector<Load> storage(rules_.parts);
    for (uint32_t part = 0; part < rules_.parts; ++part) storage[part] = {0, part};
    std::priority_queue<Load, std::vector<Load>, std::greater<>> open({}, std::move(storage));
    std::vector<double> held(weights_.empty() ? 0 : rules_.parts);
    std::vector<uint32_t> places(rules_.equal_counts ? rules_.parts : 0, static_cast<uint32_t>(costs_.size() / rules_.parts));
    std::vector<Load> without_room;
    for (const uint32_t item : by_cost_) {
        while (!open.empty() && !held.empty() && held[open.top().part] + weights_[item] > rules_.capacity) {
            without_room.push_back(open.top());
            open.pop();
        }
        if (open.empty()) return false;
        Load load = open.top();
        open.pop();
        part_of_[item] = load.part;
        load.cost += costs_[item];
        if (!held.empty()) held[load.part] += weights_[item];
        if (places.empty() || --places[load.part] > 0) open.push(load);
        for (const Load& each : without_room) open.push(each);
        without_room.clear();
    }
    return true;
}

/// Each item, heaviest first, to the part with the least room that suffices: balance comes later.
bool Partitioner::best_fit() {
    std::vector<uint32_t> by_weight = by_cost_;
    std::ranges::stable_sort(by_weight, [&](uint32_t a, uint32_t b) { return weights_[a] > weights_[b]; });
    std::vector<double> held(rules_.parts);
    std::vector<uint64_t> places(rules_.parts, rules_.equal_counts ? costs_.size() / rules_.parts : costs_.size());
    for (const uint32_t item : by_weight) {
        std::size_t best = rules_.parts;
        for (std::size_t part = 0; part < rules_.parts; ++part) {
            const bool fits = places[part] > 0 && held[part] + weights_[item] + (held[part] > 0 ? slack_ : 0) <= rules_.capacity;
            if (fits && (best == rules_.parts || held[part] > held[best])) best = part;
        }
        if (best == rules_.parts) return false;
        part_of_[item] = static_cast<uint32_t>(best);
        held[best] += weights_[item];
        --places[best];
    }
    return true;
}

// What follows works on the parts with their items, `parts_`, and keeps `part_of_` along.

void Partitioner::gather() {
    for (Part& part : open_parts()) part.items.clear();
    for (const uint32_t item : by_cost_) parts_[part_of_[item]].items.push_back(item);
    for (Part& part : open_parts()) count(part);
}

void Partitioner::count(Part& part) const {
    part.cost = part.weight = 0;
    for (const uint32_t item : part.items) {
        part.cost += costs_[item];
        part.weight += weight(item);
    }
}

std::span<Partitioner::Part> Partitioner::open_parts() { return std::span(parts_).first(rules_.parts); }

/// Into by_load_, least first.
void Partitioner::sort_parts(double Part::*load) {
    by_load_.resize(rules_.parts);
    std::iota(by_load_.begin(), by_load_.end(), 0u);
    std::ranges::sort(by_load_, [&](uint32_t a, uint32_t b) {
        const double x = parts_[a].*load, y = parts_[b].*load;
        return x != y ? x < y : a < b;
    });
}

double Partitioner::largest_cost() {
    return std::ranges::max_element(open_parts(), {}, &Part::cost)->cost;
}

bool Partitioner::is_held() {
    if (weights_.empty()) return true;
    return std::ranges::all_of(open_parts(), [&](const Part& part) { return part.weight <= rules_.capacity; });
}

void Partitioner::put(uint32_t item, Part& part) {
    const auto is_before = [&](uint32_t a, uint32_t b) { return costs_[a] != costs_[b] ? costs_[a] > costs_[b] : a < b; };
    const auto place = std::ranges::lower_bound(part.items, item, is_before);
    part.items.insert(place, item);
    part_of_[item] = static_cast<uint32_t>(&part - parts_.data());
}

void Partitioner::apply(const Exchange& exchange, Part& from, Part& to) {
    const auto cut = [](Part& part, const Run& run) {
        const auto first = part.items.begin() + static_cast<std::ptrdiff_t>(run.first), end = first + static_cast<std::ptrdiff_t>(run.count);
        const std::vector<uint32_t> items(first, end);
        part.items.erase(first, end);
        return items;
    };
    const std::vector<uint32_t> given = cut(from, exchange.given), taken = cut(to, exchange.taken);
    for (const uint32_t item : taken) put(item, from);
    for (const uint32_t item : given) put(item, to);
    count(from);
    count(to);
}

/// Lowers the costliest part while that can be done, by an item at a time that goes to a cheaper part, perhaps for a smaller one. Cheapest parts first.
void Partitioner::improve() {
    const std::span<Part> parts = open_parts();
    const double mean = std::accumulate(costs_.begin(), costs_.end(), 0.0) / static_cast<double>(parts.size());
    const double enough = std::max(mean * 1e-5, whole_ ? 1.0 : 0.0);  // less is of no use, or cannot be had of whole numbers
    std::size_t work = std::min((weights_.empty() ? 64 : 256) * (costs_.size() + parts.size()), most_work);  // items and parts looked at
    for (bool lowered = true; lowered;) {
        sort_parts(&Part::cost);
        Part& from = parts[by_load_.back()];
        if (from.cost - mean < enough) return;
        if (from.items.size() <= 1) return;                               // one item that costs most
        lowered = false;
        for (const uint32_t cheap : by_load_) {
            Part& to = parts[cheap];
            const std::size_t ours = from.items.size(), theirs = to.items.size(), looked_at = ours + theirs + parts.size() / 8;
            if (lowered || to.cost >= from.cost || work < looked_at) break;
            work -= looked_at;
            Exchange exchange = best_exchange(from, to);
            const std::size_t pairs = std::min(ours, most_singles) * theirs + std::min(theirs, most_singles) * ours;
            if (!exchange.is_found() && !weights_.empty() && !rules_.equal_counts && pairs <= work) {
                work -= pairs;
                exchange = best_exchange_of_runs(from, to);
            }
            if (!exchange.is_found()) continue;
            apply(exchange, from, to);
            lowered = true;
        }
    }
}

/// The exchange after which the costlier of the two parts costs least, if less than before. The difference that changes sides should be half of what
/// the parts differ by; for each item given, those that differ from it by about that are looked at.
Partitioner::Exchange Partitioner::best_exchange(const Part& from, const Part& to) const {
    const double gap = from.cost - to.cost;
    const double least = whole_ ? 0 : from.cost * 1e-12;  // a gain below that could be rounding
    Exchange best;
    best.score = gap / 2 - least;  // distance from half of the gap
    const auto consider = [&](std::size_t given, std::size_t taken, std::size_t taken_count) {
        const double moved = costs_[from.items[given]] - (taken_count > 0 ? costs_[to.items[taken]] : 0);
        const double score = std::abs(moved - gap / 2);
        if (score >= best.score) return;
        const double heavier = weight(from.items[given]) - (taken_count > 0 ? weight(to.items[taken]) : 0);
        if (!weights_.empty() && std::max(to.weight + heavier, from.weight - heavier) + slack_ > rules_.capacity) return;
        best = {{given, 1}, {taken, taken_count}, score};
    };
    const std::size_t reach = weights_.empty() ? 1 : 8;  // a neighbour may fit under the cap where the nearest does not
    std::size_t near = 0;
    for (std::size_t given = 0; given < from.items.size(); ++given) {
        if (!rules_.equal_counts) consider(given, 0, 0);
        const double wanted = costs_[from.items[given]] - gap / 2;
        while (near < to.items.size() && costs_[to.items[near]] > wanted) ++near;  // both are sorted
        for (std::size_t taken = near < reach ? 0 : near - reach; taken < std::min(near + reach, to.items.size()); ++taken) consider(given, taken, 1);
    }
    return best;
}

/// Under a tight cap nothing moves one by one: an item that costs much for its weight goes for several that together weigh about as much and cost
/// less, or the other way round. Those several are neighbours by cost.
Partitioner::Exchange Partitioner::best_exchange_of_runs(const Part& from, const Part& to) const {
    const double gap = from.cost - to.cost;
    Exchange best;
    best.score = gap / 2 - (whole_ ? 0 : from.cost * 1e-12);
    const auto search = [&](const Part& singles, const Part& runs, bool gives_single) {
        const std::size_t stride = singles.items.size() / most_singles + 1;
        for (std::size_t single = 0; single < singles.items.size(); single += stride) {
            const uint32_t one = singles.items[single];
            const double lightest = runs.weight + weight(one) - rules_.capacity + slack_;  // a run, for both to stay under the cap
            const double heaviest = rules_.capacity - singles.weight + weight(one) - slack_;
            double run_cost = 0, run_weight = 0;
            std::size_t end = 0;
            for (std::size_t first = 0; first < runs.items.size(); ++first) {
                for (; end < runs.items.size() && (run_weight < lightest || end <= first); ++end) {
                    run_cost += costs_[runs.items[end]];
                    run_weight += weight(runs.items[end]);
                }
                if (run_weight < lightest) break;
                const double score = std::abs((gives_single ? costs_[one] - run_cost : run_cost - costs_[one]) - gap / 2);
                if (run_weight <= heaviest && score < best.score)
                    best = gives_single ? Exchange{{single, 1}, {first, end - first}, score} : Exchange{{first, end - first}, {single, 1}, score};
                run_cost -= costs_[runs.items[first]];
                run_weight -= weight(runs.items[first]);
            }
        }
    };
    search(from, to, true);
    search(to, from, false);
    return best;
}

/// Brings parts that are too heavy under the cap, as far as the lightest parts have room; false when some stay too heavy.
bool Partitioner::repair() {
    const std::span<Part> parts = open_parts();
    constexpr std::size_t tried_parts = 8;
    std::size_t work = std::min(256 * costs_.size(), most_work);  // items and pairs of them looked at
    while (work > 0) {
        sort_parts(&Part::weight);
        Part& from = parts[by_load_.back()];
        if (from.weight <= rules_.capacity) return true;
        Exchange best;
        Part* best_to = nullptr;
        for (const uint32_t light : std::span(by_load_).first(std::min(tried_parts, by_load_.size()))) {
            if (parts[light].weight >= rules_.capacity) break;
            const std::size_t pairs = from.items.size() * parts[light].items.size();
            const Exchange exchange = best_relief(from, parts[light], pairs <= work);
            work -= std::min(work, from.items.size() + (pairs <= work ? pairs : 0));
            if (!exchange.is_found() || (best_to != nullptr && exchange.score >= best.score)) continue;
            best = exchange;
            best_to = &parts[light];
        }
        if (best_to == nullptr) return false;
        apply(best, from, *best_to);
    }
    return is_held();
}

/// The exchange that takes most of what `from` weighs too much, and among those that take all of it the one after which the costlier part costs least.
Partitioner::Exchange Partitioner::best_relief(const Part& from, const Part& to, bool with_swaps) const {
    const double excess = from.weight - rules_.capacity;
    Exchange best;
    const auto consider = [&](std::size_t given, std::size_t taken, std::size_t taken_count) {
        const double lighter = weight(from.items[given]) - (taken_count > 0 ? weight(to.items[taken]) : 0);
        if (lighter <= 0 || to.weight + lighter + slack_ > rules_.capacity) return;
        const double moved = costs_[from.items[given]] - (taken_count > 0 ? costs_[to.items[taken]] : 0);
        // Costs count from 0 up, what stays too heavy for more than any of them.
        const double costlier = std::max(from.cost - moved, to.cost + moved) / (from.cost + to.cost + 1);
        const double score = costlier + 2 * std::max(0.0, excess - lighter) / excess;
        if (!best.is_found() || score < best.score) best = {{given, 1}, {taken, taken_count}, score};
    };
    for (std::size_t given = 0; given < from.items.size(); ++given) {
        if (!rules_.equal_counts) consider(given, 0, 0);
        for (std::size_t taken = 0; with_swaps && taken < to.items.size(); ++taken) consider(given, taken, 1);
    }
    return best;
}

}  // namespace sab
