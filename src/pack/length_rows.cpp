#include "pack/length_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sab {
namespace {

constexpr uint32_t most_buckets = 1u << 16;
constexpr uint32_t most_skipped = 8;        // of the samples that follow the oldest
constexpr std::size_t most_in_triples = 8;  // of the candidates
constexpr uint64_t lookups_in_store = 256;
constexpr uint32_t few = 300;               // samples that are left at the end
constexpr double lengths_at_end = 2.5;      // mean ones, of the room in which a row is ended
constexpr uint64_t most_not_wasted = 1024;  // times what a row may leave

uint32_t highest_bit(uint64_t word) {
    return 63 - static_cast<uint32_t>(std::countl_zero(word));
}

/// The bits up to the one numbered `last`.
uint64_t bits_to(std::size_t last) {
    return ~uint64_t{0} >> (63 - last % 64);
}

}  // namespace

LengthWindow::LengthWindow(const RowItems& items, std::span<const uint32_t> stream)
    : lengths_(stream.size()), after_(stream.size()) {
    uint32_t longest = 0;
    for (std::size_t place = 0; place < stream.size(); ++place) {
        const uint32_t length = items.sizes[stream[place]];
        lengths_[place] = length;
        shortest_ = std::min(shortest_, length);
        longest = std::max(longest, length);
    }
    while (longest >> shift_ >= most_buckets) ++shift_;
    const std::size_t buckets = bucket_of(longest) + 1;
    first_.assign(buckets, none);
    last_.resize(buckets);
    used_.assign((buckets + 63) / 64, 0);
    used_words_.assign((used_.size() + 63) / 64, 0);
}

void LengthWindow::mark(std::size_t bucket, bool is_used) {
    uint64_t& word = used_[bucket / 64];
    word ^= uint64_t{1} << bucket % 64;
    if (is_used ? std::has_single_bit(word) : word == 0)
        used_words_[bucket / 4096] ^= uint64_t{1} << bucket / 64 % 64;
}

void LengthWindow::load(std::size_t most) {
    for (; !is_last() && count_ < most; ++next_, ++count_) {
        const std::size_t bucket = bucket_of(lengths_[next_]);
        tokens_ += lengths_[next_];
        after_[next_] = none;
        if (first_[bucket] == none) {
            first_[bucket] = next_;
            mark(bucket, true);
        } else {
            after_[last_[bucket]] = next_;
        }
        last_[bucket] = next_;
    }
}

void LengthWindow::take(uint32_t place) {
    const std::size_t bucket = bucket_of(lengths_[place]);
    if (first_[bucket] == place) {
        first_[bucket] = after_[place];
        if (first_[bucket] == none) mark(bucket, false);
    } else {
        uint32_t before = first_[bucket];
        while (after_[before] != place) before = after_[before];
        after_[before] = after_[place];
        if (last_[bucket] == place) last_[bucket] = before;
    }
    after_[place] = taken;
    --count_;
    tokens_ -= lengths_[place];
}

uint32_t LengthWindow::oldest() {
    while (!has(oldest_)) ++oldest_;
    return oldest_;
}

/// The last bucket up to `most` that is not empty; as a size_t, -1 if there is none.
std::size_t LengthWindow::last_bucket(std::size_t most) const {
    std::size_t word = most / 64;
    if (const uint64_t here = used_[word] & bits_to(most)) return word * 64 + highest_bit(here);
    if (word-- == 0) return std::size_t{0} - 1;
    std::size_t of_words = word / 64;
    uint64_t here = used_words_[of_words] & bits_to(word);
    while (here == 0) {
        if (of_words == 0) return std::size_t{0} - 1;
        here = used_words_[--of_words];
    }
    word = of_words * 64 + highest_bit(here);
    return word * 64 + highest_bit(used_[word]);
}

uint32_t LengthWindow::longest(uint32_t room, uint32_t but, uint32_t nor) const {
    if (room < shortest_) return none;
    std::size_t bucket = last_bucket(std::min(bucket_of(room), first_.size() - 1));
    for (; bucket < first_.size(); bucket = bucket > 0 ? last_bucket(bucket - 1) : bucket - 1) {
        uint32_t best = none;
        for (uint32_t place = first_[bucket]; place != none; place = after_[place]) {
            if (place == but || place == nor || lengths_[place] > room) continue;
            if (best == none || lengths_[place] > lengths_[best]) best = place;
            if (shift_ == 0) break;  // all have this length
        }
        if (best != none) return best;
    }
    return none;
}

LengthFiller::LengthFiller(const RowItems& items, const RowSearch& search,
                           std::span<const uint32_t> stream)
    : stream_(stream),
      window_(items, stream),
      capacity_(items.capacities[0]),
      most_samples_(items.most_samples),
      window_size_(search.window),
      tries_(search.tries),
      near_(static_cast<uint32_t>(
          std::min<double>(items.capacities[0], lengths_at_end * items.mean_length))),
      heavy_(static_cast<uint64_t>(static_cast<double>(search.window) * items.mean_length +
                                   2 * items.length_deviation *
                                       std::sqrt(static_cast<double>(search.window)))),
      spare_(static_cast<uint64_t>(search.spare * 65536)),
      lookups_(lookups_in_store) {
    window_.load(window_size_);
}

void LengthFiller::put(uint32_t place) {
    const double length = window_.length(place);
    squares_ += length * length;
    room_ -= window_.length(place);
    --slots_;
    rows_->items.push_back(stream_[place]);
    window_.take(place);
}

/// The oldest sample; of the last few the longest, which finds room now.
void LengthFiller::begin() {
    put(window_.is_last() && window_.count() <= few ? window_.longest(capacity_)
                                                    : window_.oldest());
}

/// The samples that follow, which stand in a random order.
void LengthFiller::run() {
    uint32_t skipped = 0;
    for (uint32_t place = window_.begin(); room_ > near_ && slots_ > 2; ++place) {
        if (place == window_.end()) window_.load(window_size_);
        if (place == window_.end()) return;
        if (!window_.has(place)) continue;
        if (window_.length(place) <= room_)
            put(place);
        else if (++skipped == most_skipped)
            return;
    }
}

/// Where the limit on samples needs more rows than the capacity, each row is given all that it may
/// have: samples of about the length that its room has for each.
void LengthFiller::share_slots() {
    const auto samples = static_cast<double>(window_.count()),
               tokens = static_cast<double>(window_.tokens());
    if (samples * capacity_ <= tokens * most_samples_) return;
    while (slots_ > 0) {
        uint32_t place = window_.longest(room_ / slots_);
        if (place == none) place = window_.longest(room_);
        if (place == none) return;
        put(place);
    }
}

/// Takes places `a` and `b`, each of which may be none, and the longest that then fits, if they
/// leave less room. Says whether that is little enough.
bool LengthFiller::keep_if_better(Ending& best, uint32_t a, uint32_t b) const {
    uint32_t room = room_;
    for (const uint32_t place : {a, b}) {
        if (place == none) continue;
        if (window_.length(place) > room) return false;
        room -= window_.length(place);
    }
    uint32_t last = none;
    if (room > enough_ || a == none) {
        last = window_.longest(room, a, b);
        if (last != none) room -= window_.length(last);
    }
    if (room < best.waste || room <= enough_) best = {{a, b, last}, room};
    return room <= enough_;
}

bool LengthFiller::try_pairs(Ending& best) {
    const uint64_t most = std::min(tries_, lookups_);
    uint64_t tried = 0;
    for (uint32_t place = window_.oldest(); place < window_.end() && tried < most; ++place) {
        if (!window_.has(place)) continue;
        ++tried;
        --lookups_;
        if (window_.length(place) > room_) continue;
        if (keep_if_better(best, place, none)) return true;
        candidates_.push_back(place);
    }
    return false;
}

bool LengthFiller::try_triples(Ending& best) {
    const std::size_t count = std::min(candidates_.size(), most_in_triples);
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = i + 1; j < count && lookups_ > 0; ++j, --lookups_)
            if (keep_if_better(best, candidates_[i], candidates_[j])) return true;
    return false;
}

/// The last samples: one to three that leave little room. Two of them, the first of which is an old
/// one, are tried first. Where the window has too many long samples one is, which is long.
void LengthFiller::end() {
    if (slots_ == 0 || room_ < window_.shortest() || window_.count() == 0) return;
    Ending best{{none, none, none}, room_};
    const bool is_enough = keep_if_better(best, none, none);
    if (best.places[2] == none) return;
    candidates_.clear();
    if (!(is_enough && is_heavy_) && slots_ > 1 && !try_pairs(best) && best.waste > enough_ &&
        slots_ > 2)
        try_triples(best);
    for (const uint32_t place : best.places)
        if (place != none) put(place);
}

/// Whatever still fits. Samples without a length wait for the end, so that no row has them all.
void LengthFiller::fill_up() {
    while (slots_ > 0 && room_ >= window_.shortest() && (room_ > 0 || window_.is_last())) {
        window_.load(window_size_);
        const uint32_t place = window_.count() > 0 ? window_.longest(room_) : none;
        if (place == none) return;
        put(place);
    }
}

void LengthFiller::place_row(RowLayout& rows) {
    const std::size_t begin_of_row = rows.items.size();
    rows_ = &rows;
    room_ = capacity_;
    slots_ = most_samples_;
    squares_ = 0;
    is_heavy_ = window_.count() == window_size_ && window_.tokens() > heavy_;
    not_wasted_ = std::min(not_wasted_ + spare_, most_not_wasted * spare_);
    enough_ = static_cast<uint32_t>(
        std::min<uint64_t>(std::min(not_wasted_, 2 * spare_) >> 16, capacity_));
    begin();
    run();
    if (most_samples_ != none) share_slots();
    end();
    fill_up();
    not_wasted_ -= std::min(not_wasted_, uint64_t{room_} << 16);
    const uint64_t placed = rows.items.size() - begin_of_row;
    lookups_ = std::min(lookups_ + placed * tries_ / 8, std::max(lookups_in_store, 8 * tries_));
    rows.ends.push_back(static_cast<uint32_t>(rows.items.size()));
    rows.squares.push_back(squares_);
    window_.load(window_size_);
}

void LengthFiller::fill(uint32_t left, RowLayout& rows) {
    while (!window_.is_last() || window_.count() > left) place_row(rows);
}

std::vector<uint32_t> LengthFiller::rest() const {
    std::vector<uint32_t> rest;
    for (uint32_t place = 0; place < window_.end(); ++place)
        if (window_.has(place)) rest.push_back(stream_[place]);
    return rest;
}

}  // namespace sab
