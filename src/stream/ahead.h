#pragma once
/// Records that are read in windows, each of which is ordered and then given in parts.

#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/python_random.h"
#include "stream/stream.h"

namespace sab {

/// Several sizes of each record of a window, which a callback sets.
class RecordSizes {
public:
    using Function = int32_t (*)(void* ctx, const sab_record* record, double* sizes);
    /// Records have one size, their own.
    RecordSizes() = default;
    /// `are_whole`: others are refused.
    RecordSizes(Function function, std::size_t columns, Context context, bool are_whole)
        : function_(function),
          columns_(columns),
          context_(std::move(context)),
          are_whole_(are_whole) {}

    std::span<const double> of(std::size_t record) const {
        return {values_.data() + record * columns_, columns_};
    }
    /// Those of all records, one after the other.
    const std::vector<double>& values() const { return values_; }
    /// Measures a record, once; all before it were measured. `number`: of it, in messages.
    void measure(const std::vector<Record>& records, std::size_t record, uint64_t number) {
        if (values_.size() < (record + 1) * columns_) add(records[record].view, number);
    }
    /// Only the first `count` records are left.
    void resize(std::size_t count) { values_.resize(count * columns_); }
    /// Only these are left, which ascend.
    void keep(std::span<const uint32_t> records);

private:
    void add(const sab_record& record, uint64_t number);

    Function function_ = nullptr;
    std::size_t columns_ = 0;
    Context context_;
    bool are_whole_ = false;
    std::vector<double> values_;
};

/// The largest size of a record, and what becomes of larger ones.
struct RecordLimit {
    /// Below 0: records have several sizes, and is_over() knows their limits.
    double most = std::numeric_limits<double>::infinity();
    sab_oversize oversize = SAB_OVERSIZE_ERROR;
    std::string_view option;   ///< of `most`, for messages
    std::string_view choices;  ///< of `oversize`, for messages
};

/// Records are read in windows. Each window is ordered and then given in parts. A state is that of
/// the source and the generator at a window that began with nothing carried over, and how many
/// parts were given since.
class Ahead : public SourceStage {
public:
    Ahead(uint64_t window, uint64_t seed, const RecordLimit& limit = {}, RecordSizes sizes = {})
        : sizes_(std::move(sizes)), window_(window), seed_(seed), random_(seed), limit_(limit) {}

    bool next(Record& record) override {
        if (!find_part()) return false;
        give_next(record);
        return true;
    }
    std::size_t append(std::vector<Record>& into, std::size_t most) override {
        if (!find_part()) return 0;
        const std::size_t before = into.size();
        into.resize(before + std::min(most, order_.size() - given_));
        std::size_t made = before;
        try {
            for (; made < into.size(); ++made) give_next(into[made]);
        } catch (...) {
            if (made == before) {
                into.resize(before);
                throw;
            }
            into.resize(made);  // the failure comes again
        }
        return made - before;
    }

    uint64_t skipped() const override { return SourceStage::skipped() + skipped_; }
    void check_any_left() const override {
        SourceStage::check_any_left();
        if (taken_ > 0 && skipped_in_row_ == taken_)
            refuse_argument(first_over_.limit, "must leave a record; all ", taken_,
                            " are over it, the first one has ", first_over_.size);
    }

    void save(StateWriter& state) const override {
        if (is_reading_)
            refuse_argument("stream", no_value,
                            "failed while it read ahead: call sab_stream_next() until it succeeds, "
                            "or restore an earlier state");
        const bool has_window = windows_since_ > 0;
        state.bytes(has_window ? before_ : state_of(*source_));
        state.generator((has_window ? random_before_ : random_).generator());
        state.number(has_window ? taken_before_ : taken_);
        state.number(has_window ? given_since_ : 0);
        state.number(has_window);
        state.number(is_over_);
    }

    void restore(StateReader& state) override {
        forget();
        const auto before = state.bytes();
        restore_from(*source_, before);
        state.generator(random_.generator());
        taken_ = state.number();
        uint64_t given = state.number(most_windows * window_ + window_);
        const bool has_window = state.number(1) == 1, is_over = state.number(1) == 1;
        if (!has_window) {
            is_over_ = is_over;
            return;
        }
        for (read(); given > order_.size(); read()) {
            if (is_over_ || !has_rest_) StateReader::refuse();
            given -= order_.size();
            given_since_ += order_.size();
            for (; given_ < order_.size(); ++given_) drop(order_[given_]);
        }
        if (is_over != is_over_) StateReader::refuse();
        given_since_ += given;
        for (; given_ < given; ++given_) drop(order_[given_]);
    }

protected:
    /// Arranges items_: parts for order_. False when some of the items are carried over to the next
    /// window: those in rest_, which is empty before. When it fails it is called again.
    virtual bool arrange(bool must_use_all) = 0;
    virtual void give(uint32_t part, Record& record) = 0;
    virtual void drop(uint32_t part) = 0;
    std::size_t given() const { return given_; }
    /// Records of the source, since its beginning.
    uint64_t taken() const { return taken_; }

    /// How a record is too large.
    struct Excess {
        std::string size;  ///< of the record
        NamedValue limit;  ///< that it exceeds
    };
    /// Whether one of items_ is too large.
    virtual bool is_over(std::size_t item) const { return items_[item].view.size > limit_.most; }
    /// Of one that is.
    virtual Excess excess(std::size_t item) const {
        return {text("size ", items_[item].view.size),
                {std::string(limit_.option), text(limit_.most)}};
    }

    /// Parts are given in the order in which they were made, or shuffled.
    void order_parts(std::size_t parts, bool shuffle) {
        order_.resize(parts);
        std::iota(order_.begin(), order_.end(), 0u);
        if (shuffle) random_.shuffle(order_);
    }

    std::vector<Record> items_;    ///< the window
    RecordSizes sizes_;            ///< of its records, where they have several
    std::vector<uint32_t> order_;  ///< its parts, as they are given
    std::vector<uint32_t> rest_;   ///< items that are carried over, as they came
    const uint64_t window_, seed_;
    PythonRandom random_;

private:
    static constexpr uint64_t most_windows = 8;
    static constexpr uint64_t most_at_once = 256;  ///< records; those behind a skipped one move up
    static constexpr uint64_t most_skipped = 10'000'000;  ///< records in a row

    /// Reads until there is a part that was not given. False at the end.
    bool find_part() {
        while (given_ == order_.size()) {
            if (is_over_ && !is_reading_) return false;
            read();
        }
        return true;
    }
    void give_next(Record& record) {
        give(order_[given_], record);
        ++given_;
        ++given_since_;
    }

    void forget() override {
        items_.clear();
        checked_ = 0;
        sizes_.resize(0);
        order_.clear();
        rest_.clear();
        given_ = given_since_ = windows_since_ = taken_ = skipped_in_row_ = 0;
        has_rest_ = is_reading_ = is_over_ = false;
        random_ = PythonRandom(seed_);
    }

    void read() {
        if (!is_reading_) {
            if (!has_rest_) {
                before_ = state_of(*source_);  // first, since only this can fail
                random_before_ = random_;
                taken_before_ = taken_;
                given_since_ = windows_since_ = 0;
            }
            keep_rest();
            order_.clear();
            given_ = 0;
            wanted_ = items_.size() + window_;
            is_reading_ = true;
        }
        // What came before a failure is kept.
        for (uint64_t read = 0, report = 0; check_sizes(), !is_over_ && items_.size() < wanted_;) {
            // by records read, not kept: a source whose records are all skipped can be cancelled
            if (read >= report) {
                report_progress(items_.size(), wanted_);
                report = read + 4096;
            }
            const std::size_t count = source_->append(
                items_, static_cast<std::size_t>(std::min(wanted_ - items_.size(), most_at_once)));
            is_over_ = count == 0;
            taken_ += count;
            read += count;
        }
        rest_.clear();
        has_rest_ = !arrange(is_over_ || windows_since_ + 1 >= most_windows);
        is_reading_ = false;
        ++windows_since_;
    }

    /// Leaves out or refuses the records that are too large, of those that were taken last. One
    /// that is refused stays, so that the next call refuses it again.
    void check_sizes() {
        while (checked_ < items_.size()) {
            if (items_[checked_].view.size > limit_.most && check_size()) continue;
            ++checked_;
            skipped_in_row_ = 0;
        }
    }
    /// Whether a record was left out.
    bool check_size() {
        const uint64_t number = taken_ - (items_.size() - checked_);
        sizes_.measure(items_, checked_, number);
        if (!is_over(checked_)) return false;
        const bool is_first = skipped_ == 0, is_last = skipped_in_row_ + 1 == most_skipped;
        if (limit_.oversize == SAB_OVERSIZE_ERROR) refuse_record(number, excess(checked_));
        const Excess over = is_first || is_last ? excess(checked_) : Excess{};
        if (number == 0) first_over_ = is_first ? over : excess(checked_);
        items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(checked_));
        sizes_.resize(checked_);
        ++skipped_;
        ++skipped_in_row_;
        if (is_first)
            log(SAB_LOG_WARNING, "skipped record ", number, " of ", over.size, ": over ",
                over.limit.name, " = ", over.limit.value, "; others are only counted");
        if (is_last) {
            skipped_in_row_ = 0;  // for the next call
            refuse_argument(over.limit, "must leave a record; ", most_skipped,
                            " in a row are over it, the last one is record ", number, " of ",
                            over.size);
        }
        return true;
    }
    [[noreturn]] void refuse_record(uint64_t number, const Excess& over) const {
        refuse_argument(named("record ", number), no_value, "has ", over.size, ": must be at most ",
                        over.limit.name, " = ", over.limit.value, ". Set options.oversize to ",
                        limit_.choices, ", or use a larger one");
    }

    /// Moves what is carried over to the front of items_, and takes the rest away.
    void keep_rest() {
        for (std::size_t i = 0; i < rest_.size(); ++i)
            if (rest_[i] != i) items_[i] = std::move(items_[rest_[i]]);
        items_.resize(rest_.size());
        sizes_.keep(rest_);
        checked_ = rest_.size();
        rest_.clear();
    }

    const RecordLimit limit_;
    std::size_t checked_ = 0;  ///< of items_, whose sizes were
    Bytes before_;
    PythonRandom random_before_{0};
    uint64_t taken_ = 0;         ///< records of the source, since its beginning
    uint64_t taken_before_ = 0;  ///< of them, before the window of before_
    uint64_t skipped_ = 0;
    uint64_t skipped_in_row_ = 0;
    Excess first_over_{};    ///< of the first record, if that was left out
    std::size_t given_ = 0;  ///< of order_
    /// items of the window that is read: those carried over, and as many as it reads
    uint64_t wanted_ = 0;
    uint64_t given_since_ = 0;    ///< parts since before_
    uint64_t windows_since_ = 0;  ///< windows since before_
    bool has_rest_ = false;       ///< the next window begins with what this one leaves
    bool is_reading_ = false;     ///< a window has begun and is not ordered yet
    bool is_over_ = false;        ///< of the source
};

/// The parts of a window are lists of its records. The stage owns what its callbacks need.
class AheadOfLists : public Ahead {
public:
    AheadOfLists(uint64_t window, uint64_t seed, const RecordLimit& limit, Context context,
                 RecordSizes sizes = {})
        : Ahead(window, seed, limit, std::move(sizes)), context_(std::move(context)) {}
    void attach(StreamPtr source) noexcept override {
        Ahead::attach(std::move(source));
        context_->own();
    }

protected:
    Context context_;
    /// Numbers among items_.
    virtual std::span<const uint32_t> items_of(uint32_t part) const = 0;

private:
    void give(uint32_t part, Record& record) final {
        const std::span<const uint32_t> items = items_of(part);
        auto list = std::make_unique<List>();
        list->reserve(items.size());
        for (const uint32_t item : items) list->add(std::move(items_[item]));
        record = list_record(std::move(list));
    }
    void drop(uint32_t part) final {
        for (const uint32_t item : items_of(part)) items_[item] = Record{};
    }
};

/// Of records of several sizes.
StagePtr make_column_readahead(const sab_readahead_stream_options& options);
StagePtr make_column_pack(const sab_pack_stream_options& options);

}  // namespace sab
