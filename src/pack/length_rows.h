#pragma once
/// Rows of one column: filled from a window of samples that is searched by length.

#include <cstdint>
#include <span>
#include <vector>

#include "pack/row_layout.h"

namespace sab {

/// The next samples of a stream, found by age and by length.
class LengthWindow {
public:
    static constexpr uint32_t none = 0xFFFFFFFFu;

    /// Of the items that the stream names, one a place.
    LengthWindow(const RowItems& items, std::span<const uint32_t> stream);

    /// Takes in the next places until the window has `most`.
    void load(std::size_t most);
    void take(uint32_t place);

    bool has(uint32_t place) const { return after_[place] != taken; }
    uint32_t begin() const { return oldest_; }  ///< of the places that may still be there
    uint32_t oldest();
    uint32_t end() const { return next_; }  ///< of the places that were loaded
    bool is_last() const { return next_ == lengths_.size(); }
    uint32_t count() const { return count_; }
    uint64_t tokens() const { return tokens_; }
    uint32_t length(uint32_t place) const { return lengths_[place]; }
    uint32_t shortest() const { return shortest_; }
    /// The longest of at most `room`, other than two.
    uint32_t longest(uint32_t room, uint32_t but = none, uint32_t nor = none) const;

private:
    static constexpr uint32_t taken = none - 1;

    std::size_t bucket_of(uint32_t length) const { return length >> shift_; }
    std::size_t last_bucket(std::size_t most) const;
    void mark(std::size_t bucket, bool is_used);

    std::vector<uint32_t> lengths_;  ///< by place
    /// by place: the next one in the list of its bucket, oldest first
    std::vector<uint32_t> after_;
    std::vector<uint32_t> first_, last_;  ///< places by bucket
    std::vector<uint64_t> used_;          ///< a bit for each bucket that is not empty
    std::vector<uint64_t> used_words_;    ///< a bit for each word of `used_` that is not 0
    uint32_t shift_ = 0;
    uint32_t shortest_ = none;
    uint32_t oldest_ = 0, next_ = 0;
    uint32_t count_ = 0;
    uint64_t tokens_ = 0;
};

/// Fills one row after the other.
class LengthFiller {
public:
    LengthFiller(const RowItems& items, const RowSearch& search, std::span<const uint32_t> stream);

    /// Makes rows until at most `left` items are in none.
    void fill(uint32_t left, RowLayout& rows);
    /// Items of the stream that are in no row, oldest first.
    std::vector<uint32_t> rest() const;

private:
    static constexpr uint32_t none = LengthWindow::none;
    /// The last samples of a row, and the room that they leave.
    struct Ending {
        uint32_t places[3];
        uint32_t waste;
    };

    void place_row(RowLayout& rows);
    void begin();
    void run();
    void share_slots();
    void end();
    bool try_pairs(Ending& best);
    bool try_triples(Ending& best);
    void fill_up();
    void put(uint32_t place);
    bool keep_if_better(Ending& best, uint32_t a, uint32_t b) const;

    std::span<const uint32_t> stream_;
    LengthWindow window_;
    uint32_t capacity_, most_samples_;
    std::size_t window_size_;
    uint64_t tries_;
    uint32_t near_;            ///< room in which a row is ended
    uint64_t heavy_;           ///< tokens of a window that has too many long samples
    uint64_t spare_;           ///< room that a row may leave, as 2^-16 tokens
    uint64_t not_wasted_ = 0;  ///< what earlier rows did not leave of it
    uint64_t lookups_;         ///< that rows may use
    // Of the row that is filled:
    RowLayout* rows_ = nullptr;
    uint32_t room_ = 0, slots_ = 0;
    uint32_t enough_ = 0;  ///< the row may leave this much
    bool is_heavy_ = false;
    double squares_ = 0;  ///< sum of the squares of its lengths
    std::vector<uint32_t> candidates_;
};

}  // namespace sab
