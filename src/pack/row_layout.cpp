#include "pack/row_layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <span>

#include "pack/length_rows.h"
#include "sampler/copies.h"
#include "sampler/permutation.h"

namespace sab {
namespace {

constexpr std::size_t most_classes = 64;
constexpr std::size_t most_compared = 8;  // items of a class, where the largest does not fit
constexpr int most_draws = 8;             // of a mate that fits
constexpr uint32_t tail_items = 300;
constexpr uint64_t tail_restarts = 3;
constexpr double sizes_at_end = 1.5;  // mean ones, of the room in which a row is ended
constexpr uint32_t none = 0xFFFFFFFFu;

using Room = std::array<uint32_t, SAB_MAX_COLUMNS>;

/// Numbers that look random: the same for the same key.
class Draws {
public:
    explicit Draws(uint64_t key) : key_(key) {}
    std::size_t below(std::size_t count) { return multiply_high(mix(key_ ^ ++drawn_), count); }

private:
    uint64_t key_;
    uint64_t drawn_ = 0;
};

/// Fills one row after the other from a window of a stream of items of several columns.
class Filler {
public:
    Filler(const RowItems& items, const RowSearch& search, std::span<const uint32_t> stream,
           uint64_t key);

    /// Makes rows until at most `left` items are in none.
    void fill(uint32_t left, RowLayout& rows);
    /// Items of the stream that are in no row, oldest first.
    std::vector<uint32_t> rest() const;

private:
    /// Items for a row, and how much of the row it leaves empty.
    struct Candidate {
        std::vector<uint32_t> places;
        uint64_t waste = ~uint64_t{0};
    };
    /// An item of a class: its size in the key column, then its place in the stream.
    using Key = uint64_t;

    const uint32_t* sizes_at(uint32_t place) const { return items_.sizes_of(stream_[place]); }
    std::size_t class_of(uint32_t place) const;
    Key key_of(uint32_t place) const {
        return uint64_t{sizes_at(place)[key_column_]} << 32 | place;
    }
    bool fits(uint32_t place) const {
        const uint32_t* sizes = sizes_at(place);
        for (std::size_t j = 0; j < items_.columns; ++j)
            if (sizes[j] > room_[j]) return false;
        return true;
    }
    /// What is left empty in a row with the room, less sizes.
    uint64_t waste(const uint32_t* sizes) const {
        uint64_t sum = 0;
        for (std::size_t j = 0; j < items_.columns; ++j)
            if (room_[j] > sizes[j]) sum += (room_[j] - sizes[j]) * weights_[j];
        return sum;
    }
    /// Whether a column that counts has little room.
    bool is_near_end() const {
        for (std::size_t j = 0; j < items_.columns; ++j)
            if (weights_[j] > 0 && room_[j] <= near_[j]) return true;
        return false;
    }
    void load(std::size_t most);
    void weigh();
    void take(uint32_t place);
    void begin(uint32_t seed);
    void add(uint32_t place);
    uint32_t draw_mate();
    uint32_t best_last(uint64_t& least) const;
    uint32_t best_of_window() const;
    void attempt(uint32_t seed, Candidate& best);
    void place_row(RowLayout& rows);

    const RowItems& items_;
    std::span<const uint32_t> stream_;
    std::size_t window_size_;
    uint64_t tries_;
    Draws draws_;
    std::size_t key_column_ = 0;
    uint32_t next_ = 0, oldest_ = 0;         ///< places in the stream
    uint32_t left_;                          ///< items in no row
    std::vector<uint32_t> window_;           ///< places
    std::vector<uint32_t> slots_;            ///< in the window, by place; none: not there
    std::vector<std::vector<Key>> classes_;  ///< of the window, each ascending
    std::vector<uint64_t> totals_;           ///< of the items in no row, by column
    std::array<uint64_t, SAB_MAX_COLUMNS> weights_{};
    Room near_{};  ///< room in which a row is ended
    // Of the row that is filled:
    Room room_{};
    std::vector<uint32_t> chosen_;
    std::vector<uint8_t> is_chosen_;  ///< by place
};

Filler::Filler(const RowItems& items, const RowSearch& search, std::span<const uint32_t> stream,
               uint64_t key)
    : items_(items),
      stream_(stream),
      window_size_(search.window),
      tries_(search.tries),
      draws_(key),
      left_(static_cast<uint32_t>(stream.size())),
      slots_(stream.size(), none),
      classes_(items.class_limits.size()),
      totals_(items.columns),
      is_chosen_(stream.size()) {
    for (uint32_t place = 0; place < stream.size(); ++place)
        for (std::size_t j = 0; j < items.columns; ++j) totals_[j] += sizes_at(place)[j];
    for (std::size_t j = 0; j < items.columns && !stream.empty(); ++j)
        near_[j] = static_cast<uint32_t>(std::min<double>(
            items.capacities[j],
            sizes_at_end * static_cast<double>(totals_[j]) / static_cast<double>(stream.size())));
    // the column, besides that of the classes, that needs the most rows
    key_column_ = items.class_column == 0 && items.columns > 1 ? 1 : 0;
    const auto needs = [&](std::size_t j) { return totals_[j] / items.capacities[j]; };
    for (std::size_t j = 0; j < items.columns; ++j)
        if (j != items.class_column && needs(j) > needs(key_column_)) key_column_ = j;
    load(window_size_);
}

std::size_t Filler::class_of(uint32_t place) const {
    const uint32_t size = sizes_at(place)[items_.class_column];
    return static_cast<std::size_t>(std::ranges::lower_bound(items_.class_limits, size) -
                                    items_.class_limits.begin());
}

void Filler::load(std::size_t most) {
    for (; next_ < stream_.size() && window_.size() < most; ++next_) {
        slots_[next_] = static_cast<uint32_t>(window_.size());
        window_.push_back(next_);
        std::vector<Key>& same = classes_[class_of(next_)];
        same.insert(std::ranges::lower_bound(same, key_of(next_)), key_of(next_));
    }
}

/// Room counts as much as its column needs rows: that of a column which needs clearly fewer rows
/// than another is not missed.
void Filler::weigh() {
    uint64_t most = 1;
    std::array<uint64_t, SAB_MAX_COLUMNS> needs{};
    for (std::size_t j = 0; j < items_.columns; ++j) {
        const uint64_t capacity = items_.capacities[j];  // totals may have 63 bits
        needs[j] = totals_[j] / capacity * 256 + totals_[j] % capacity * 256 / capacity;
        most = std::max(most, needs[j]);
    }
    const uint64_t near = most / 64 + 256;
    for (std::size_t j = 0; j < items_.columns; ++j) {
        const uint64_t behind = most - needs[j];
        const uint64_t weight = behind >= near ? 0 : 256 - 255 * behind / near;
        weights_[j] = weight * ((uint64_t{1} << 40) / items_.capacities[j]);
    }
}

void Filler::take(uint32_t place) {
    const uint32_t slot = slots_[place];
    slots_[window_.back()] = slot;
    window_[slot] = window_.back();
    window_.pop_back();
    slots_[place] = none;
    std::vector<Key>& same = classes_[class_of(place)];
    same.erase(std::ranges::lower_bound(same, key_of(place)));
    for (std::size_t j = 0; j < items_.columns; ++j) totals_[j] -= sizes_at(place)[j];
    --left_;
}

void Filler::begin(uint32_t seed) {
    std::ranges::copy(items_.capacities, room_.begin());
    for (const uint32_t place : chosen_) is_chosen_[place] = false;
    chosen_.clear();
    add(seed);
}

void Filler::add(uint32_t place) {
    for (std::size_t j = 0; j < items_.columns; ++j) room_[j] -= sizes_at(place)[j];
    chosen_.push_back(place);
    is_chosen_[place] = true;
}

/// A random item that fits, if a few draws find one.
uint32_t Filler::draw_mate() {
    for (int i = 0; i < most_draws; ++i) {
        const uint32_t place = window_[draws_.below(window_.size())];
        if (fits(place) && !is_chosen_[place]) return place;
    }
    return none;
}

/// The item that leaves the least waste, if it is below `least`, which it becomes.
uint32_t Filler::best_last(uint64_t& least) const {
    uint32_t best = none;
    if (chosen_.size() >= items_.most_samples || waste(items_.largest.data()) >= least) return best;
    Room top{};
    std::ranges::copy(items_.largest, top.begin());
    const std::size_t by = items_.class_column;
    for (std::size_t c = classes_.size(); c-- > 0;) {
        const std::vector<Key>& same = classes_[c];
        if (same.empty() || (c > 0 && items_.class_limits[c - 1] >= room_[by])) continue;
        top[by] = items_.class_limits[c];
        if (by != key_column_) top[key_column_] = static_cast<uint32_t>(same.back() >> 32);
        if (waste(top.data()) >= least) continue;
        auto at = std::ranges::upper_bound(same, uint64_t{room_[key_column_]} << 32 | none);
        for (std::size_t i = 0; i < most_compared && at != same.begin(); ++i) {
            const auto place = static_cast<uint32_t>(*--at);
            if (!fits(place) || is_chosen_[place]) continue;
            const uint64_t left = waste(sizes_at(place));
            if (left < least) {
                least = left;
                best = place;
                if (least == 0) return best;
            }
            if (items_.columns == 2) break;
        }
    }
    return best;
}

/// The same of all items, where best_last() compares few of each class.
uint32_t Filler::best_of_window() const {
    uint32_t best = none;
    uint64_t least = ~uint64_t{0};
    for (const uint32_t place : window_) {
        if (is_chosen_[place] || !fits(place)) continue;
        const uint64_t left = waste(sizes_at(place));
        if (left >= least) continue;
        least = left;
        best = place;
    }
    return best;
}

/// One filling: random mates; near the end, after each, the last item that would leave the least
/// waste.
void Filler::attempt(uint32_t seed, Candidate& best) {
    static constexpr uint32_t nothing[SAB_MAX_COLUMNS] = {};
    begin(seed);
    while (best.waste > 0) {
        uint64_t least = std::min(best.waste, waste(nothing));
        const uint32_t last = is_near_end() ? best_last(least) : none;
        if (least < best.waste) {
            best.waste = least;
            best.places = chosen_;
            if (last != none) best.places.push_back(last);
        }
        const uint32_t mate = chosen_.size() < items_.most_samples ? draw_mate() : none;
        if (mate == none) return;
        add(mate);
    }
}

void Filler::place_row(RowLayout& rows) {
    while (oldest_ < next_ && slots_[oldest_] == none) ++oldest_;
    weigh();
    Candidate best;
    for (uint64_t i = 0; i < tries_ && best.waste > 0; ++i) attempt(oldest_, best);
    begin(best.places[0]);
    for (std::size_t i = 1; i < best.places.size(); ++i) add(best.places[i]);
    // Whatever still fits, also behind a window that is in the row as a whole: items that fit into
    // one row together become one.
    while (chosen_.size() < items_.most_samples) {
        uint64_t least = ~uint64_t{0};
        uint32_t more = best_last(least);
        if (more == none) more = best_of_window();
        if (more != none) {
            add(more);
        } else if (chosen_.size() == window_.size() && next_ < stream_.size()) {
            load(window_.size() + window_size_);
        } else {
            break;
        }
    }
    for (const uint32_t place : chosen_) {
        rows.items.push_back(stream_[place]);
        take(place);
    }
    rows.ends.push_back(static_cast<uint32_t>(rows.items.size()));
    load(window_size_);
}

void Filler::fill(uint32_t left, RowLayout& rows) {
    while (left_ > left) place_row(rows);
}

std::vector<uint32_t> Filler::rest() const {
    std::vector<uint32_t> rest;
    for (uint32_t place = oldest_; place < stream_.size(); ++place)
        if (place >= next_ || slots_[place] != none) rest.push_back(stream_[place]);
    return rest;
}

}  // namespace

void RowItems::classify() {
    if (columns == 1) {
        double sum = 0, squares = 0;
        for (const double size : sizes) sum += size;
        mean_length = sum / static_cast<double>(count());
        for (const double size : sizes) squares += (size - mean_length) * (size - mean_length);
        length_deviation = std::sqrt(squares / static_cast<double>(count()));
        return;
    }
    largest.assign(columns, 0);
    for (std::size_t i = 0; i < sizes.size(); ++i)
        largest[i % columns] = std::max(largest[i % columns], sizes[i]);
    class_column = static_cast<std::size_t>(std::ranges::min_element(largest) - largest.begin());
    std::vector<uint32_t> values(count());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = sizes[i * columns + class_column];
    std::ranges::sort(values);
    class_limits.clear();
    std::ranges::unique_copy(values, std::back_inserter(class_limits));
    if (class_limits.size() <= most_classes) return;
    class_limits.clear();
    for (std::size_t i = 1; i <= most_classes; ++i) {
        const uint32_t limit = values[values.size() * i / most_classes - 1];
        if (class_limits.empty() || limit > class_limits.back()) class_limits.push_back(limit);
    }
}

static RowLayout lay_out(const RowItems& items, const RowSearch& search,
                         const EpochOptions& epoch_options, std::span<const uint32_t> stream,
                         uint32_t left, std::vector<uint32_t>& rest) {
    const auto key = [&](uint64_t which) {
        return permutation_key(epoch_options.seed, epoch_options.epoch, Purpose::rows, which);
    };
    const auto fill = [&](std::span<const uint32_t> part, uint64_t which, uint32_t most_left,
                          RowLayout& rows) {
        if (items.columns == 1) {
            LengthFiller filler(items, search, part);
            filler.fill(most_left, rows);
            return filler.rest();
        }
        Filler filler(items, search, part, key(which));
        filler.fill(most_left, rows);
        return filler.rest();
    };
    RowLayout rows;
    rows.items.reserve(stream.size());
    rest = fill(stream, 0, left > 0 ? left : tail_items, rows);
    if (left > 0) return rows;
    RowLayout best;
    std::vector<uint32_t> again(rest.size());
    for (uint64_t restart = 1; restart <= tail_restarts; ++restart) {
        Permutation(rest.size(), key(restart)).fill(0, again);
        for (uint32_t& item : again) item = rest[item];
        RowLayout tail;
        fill(again, restart, 0, tail);
        if (restart == 1 || tail.ends.size() < best.ends.size()) best = std::move(tail);
    }
    for (uint32_t& end : best.ends) end += static_cast<uint32_t>(rows.items.size());
    rows.items.insert(rows.items.end(), best.items.begin(), best.items.end());
    rows.ends.insert(rows.ends.end(), best.ends.begin(), best.ends.end());
    rows.squares.insert(rows.squares.end(), best.squares.begin(), best.squares.end());
    rest.clear();
    return rows;
}

RowLayout lay_out_rows(const RowItems& items, const RowSearch& search,
                       const EpochOptions& epoch_options) {
    std::vector<uint32_t> stream(items.count()), rest;
    Permutation(stream.size(),
                permutation_key(epoch_options.seed, epoch_options.epoch, Purpose::samples, 0))
        .fill(0, stream);
    // Farther apart than a window, so that no row can choose two.
    spread_copies(stream, items.first_copies);
    return lay_out(items, search, epoch_options, stream, 0, rest);
}

RowLayout lay_out_stream(const RowItems& items, const RowSearch& search,
                         const EpochOptions& epoch_options, uint32_t left,
                         std::vector<uint32_t>& rest) {
    std::vector<uint32_t> stream(items.count());
    std::iota(stream.begin(), stream.end(), 0u);
    return lay_out(items, search, epoch_options, stream, left, rest);
}

}  // namespace sab
