/// Windows of records: shuffled, or cut into batches of like size; and the buffer whose places are
/// drawn.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/python_random.h"
#include "base/sorting.h"
#include "cost/cost.h"
#include "stream/ahead.h"

namespace sab {
namespace {

class BlockShuffle : public Ahead {
public:
    using Ahead::Ahead;
    bool measure(sab_text_unit unit) override { return source_->measure(unit); }
    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        source_->describe(description);
        description.add("block shuffle");
        description.add(window_);
        description.add(seed_);
    }
    StreamPtr fresh() const override {
        return make_stage<BlockShuffle>(source_->fresh(), window_, seed_);
    }

private:
    bool arrange(bool) override {
        order_parts(items_.size(), true);
        return true;
    }
    /// A shuffled record lies anywhere: what comes soon is fetched ahead of time.
    void give(uint32_t part, Record& record) override {
        constexpr std::size_t soon = 16;
        if (const std::size_t at = given() + soon; at < order_.size()) {
            __builtin_prefetch(&items_[order_[at]].view);   // which may begin in one cache line
            __builtin_prefetch(&items_[order_[at]].owner);  // and end in the next
        }
        record = std::move(items_[part]);
    }
    void drop(uint32_t part) override { items_[part] = Record{}; }
};

/// The numbers of the items, the largest first.
std::vector<uint32_t> sorted_by_size(std::span<const Record> items) {
    std::vector<double> sizes;
    sizes.reserve(items.size());
    for (const Record& item : items) sizes.push_back(item.view.size);
    return by_descending(sizes);
}

class ReadAhead : public AheadOfLists {
public:
    /// `limit` of the padded total; 0: none.
    ReadAhead(const sab_readahead_stream_options& options, double limit, Context context)
        : AheadOfLists(options.read_ahead, options.seed, record_limit(options, limit),
                       std::move(context)),
          options_(options),
          limit_(limit) {}

    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        source_->describe(description);
        description.add("readahead");
        for (const uint64_t number :
             {options_.read_ahead, options_.batch_size, uint64_t{options_.no_shuffle == 0},
              static_cast<uint64_t>(options_.carry_over), options_.seed,
              static_cast<uint64_t>(options_.oversize), uint64_t{options_.batch_size_fn != nullptr},
              uint64_t{options_.boundary_key_fn != nullptr}})
            description.add(number);
        description.add(limit_);
    }
    StreamPtr fresh() const override {
        return make_stage<ReadAhead>(source_->fresh(), options_, limit_, context_);
    }

private:
    struct Batch {
        uint32_t begin, end;  ///< in sorted_
    };

    static RecordLimit record_limit(const sab_readahead_stream_options& options, double limit) {
        if (limit == 0 || options.oversize == SAB_OVERSIZE_SINGLE) return {};
        return {limit, options.oversize, "options.budgets[0].limit",
                "SAB_OVERSIZE_SKIP (1) or SAB_OVERSIZE_SINGLE (2)"};
    }

    bool arrange(bool must_use_all) override {
        sorted_ = sorted_by_size(items_);
        const bool uses_all = options_.carry_over == 0 || must_use_all;
        if (uses_all)
            cut();
        else
            choose();
        order_parts(batches_.size(), options_.no_shuffle == 0);
        return uses_all;
    }

    std::span<const uint32_t> items_of(uint32_t part) const override {
        const Batch batch = batches_[part];
        return std::span(sorted_).subspan(batch.begin, batch.end - batch.begin);
    }

    void cut() {
        batches_.clear();
        uint64_t most = 0, key = 0;
        bool is_open = false;
        for (uint32_t i = 0; i < sorted_.size(); ++i) {
            const sab_record& item = items_[sorted_[i]].view;
            if (options_.boundary_key_fn != nullptr) {
                constexpr uint64_t unset_key = uint64_t{1} << 63;
                uint64_t own = unset_key;
                call_back("boundary_key_fn",
                          [&] { return options_.boundary_key_fn(context_->get(), &item, &own); });
                if (own == unset_key) fail_unset("boundary_key_fn", "the key");
                if (is_open && own != key) is_open = false;
                key = own;
            }
            if (!is_open) {
                most = largest(item);
                batches_.push_back({i, i});
                is_open = true;
            }
            if (++batches_.back().end - batches_.back().begin >= most) is_open = false;
        }
    }

    /// The most records in a batch whose largest is this one.
    uint64_t largest(const sab_record& item) const {
        uint64_t most = options_.batch_size > 0 ? std::min(options_.batch_size, options_.read_ahead)
                                                : options_.read_ahead;
        if (limit_ > 0 && item.size > 0)
            if (const double fits = std::floor(limit_ / item.size);
                fits < static_cast<double>(most))
                most = static_cast<uint64_t>(fits);
        if (options_.batch_size_fn != nullptr) {
            uint64_t batch_size = 0;
            call_back("batch_size_fn",
                      [&] { return options_.batch_size_fn(context_->get(), &item, &batch_size); });
            check(batch_size >= 1, "batch_size_fn: batch_size", batch_size, "must be at least 1");
            most = std::min(most, batch_size);
        }
        return std::max<uint64_t>(most, 1);
    }

    /// Of all runs of sorted items that make a full batch, takes those that pad least and do not
    /// overlap, until no more than a window is left: that is carried over. Lengths that are rare
    /// wait until there are enough of them for a batch of like ones.
    void choose() {
        constexpr std::size_t grades = 4096;
        const auto count = static_cast<uint32_t>(sorted_.size());
        batches_.clear();
        capacity_.assign(count, 0);
        std::vector<uint32_t> grade(count), starts(grades + 1);
        sums_.resize(count + 1);
        for (uint32_t i = 0; i < count; ++i) sums_[i + 1] = sums_[i] + items_[sorted_[i]].view.size;
        for (uint32_t i = 0; i < count; ++i) {
            const sab_record& item = items_[sorted_[i]].view;
            const uint64_t most = largest(item);
            grade[i] = grades;  // no full batch begins here
            if (most > count - i) continue;
            capacity_[i] = i + static_cast<uint32_t>(most);
            const double places_of = item.size * static_cast<double>(most);
            const double share =
                places_of > 0 ? 1 - (sums_[capacity_[i]] - sums_[i]) / places_of : 0;
            grade[i] = static_cast<uint32_t>(
                std::clamp(share * grades, 0.0, static_cast<double>(grades - 1)));
            ++starts[grade[i] + 1];
        }
        std::partial_sum(starts.begin(), starts.end(), starts.begin());
        other_.resize(count);
        const uint32_t candidates = starts[grades];
        for (uint32_t i = 0; i < count; ++i)
            if (grade[i] < grades) other_[starts[grade[i]]++] = i;

        is_used_.assign(count, 0);
        uint64_t left = count;
        for (uint32_t k = 0; k < candidates && left > window_; ++k) {
            const uint32_t begin = other_[k], end = capacity_[begin];
            if (std::find(is_used_.begin() + begin, is_used_.begin() + end, 1) !=
                is_used_.begin() + end)
                continue;
            std::fill(is_used_.begin() + begin, is_used_.begin() + end, 1);
            batches_.push_back({begin, end});
            left -= end - begin;
        }
        // Where gaps have come between them the rest is cut as it is, largest first; what is in a
        // batch must lie together.
        std::vector<uint32_t> loose;
        for (uint32_t i = 0; i < count; ++i)
            if (is_used_[i] == 0) loose.push_back(sorted_[i]);
        std::size_t at = 0;
        while (loose.size() - at > window_) {
            const auto most =
                std::min<uint64_t>(largest(items_[loose[at]].view), loose.size() - at);
            const auto begin = static_cast<uint32_t>(sorted_.size());
            sorted_.insert(sorted_.end(), loose.begin() + static_cast<std::ptrdiff_t>(at),
                           loose.begin() + static_cast<std::ptrdiff_t>(at + most));
            batches_.push_back({begin, static_cast<uint32_t>(sorted_.size())});
            at += most;
        }
        rest_.assign(loose.begin() + static_cast<std::ptrdiff_t>(at), loose.end());
        std::ranges::sort(rest_);  // as they came
    }

    sab_readahead_stream_options options_;
    double limit_;
    std::vector<uint32_t> sorted_, other_, capacity_;
    std::vector<char> is_used_;
    std::vector<double> sums_;
    std::vector<Batch> batches_;
};

/// Windows packed by best-fit decreasing: each record, largest first, goes where it leaves the
/// least room.
class Pack : public AheadOfLists {
public:
    Pack(const sab_pack_stream_options& options, double capacity, Context context)
        : AheadOfLists(
              options.read_ahead, options.seed,
              {capacity, options.oversize, "options.capacities[0]", "SAB_OVERSIZE_SKIP (1)"},
              std::move(context)),
          options_(options),
          capacity_(capacity) {}

    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        source_->describe(description);
        description.add("pack");
        for (const uint64_t number :
             {options_.read_ahead, options_.max_records, uint64_t{options_.no_shuffle == 0},
              options_.seed, static_cast<uint64_t>(options_.oversize)})
            description.add(number);
        description.add(capacity_);
    }
    StreamPtr fresh() const override {
        return make_stage<Pack>(source_->fresh(), options_, capacity_, context_);
    }

private:
    struct Bin {
        double used = 0;
        std::vector<uint32_t> items;
    };

    bool arrange(bool must_use_all) override {
        sorted_ = sorted_by_size(items_);
        bins_.clear();
        std::multimap<double, uint32_t> open;  // by the room that is left
        for (const uint32_t item : sorted_) {
            const double size = items_[item].view.size;
            auto fitting = open.lower_bound(size);
            uint32_t bin = 0;
            if (fitting == open.end()) {
                bin = static_cast<uint32_t>(bins_.size());
                bins_.emplace_back();
            } else {
                bin = fitting->second;
                open.erase(fitting);
            }
            bins_[bin].used += size;
            bins_[bin].items.push_back(item);
            const bool is_full =
                options_.max_records > 0 && bins_[bin].items.size() == options_.max_records;
            if (!is_full) open.emplace(capacity_ - bins_[bin].used, bin);
        }
        // The emptiest wait for the next window, as long as that is half of it at most.
        if (!must_use_all) {
            std::ranges::stable_sort(bins_, std::ranges::greater{}, &Bin::used);
            while (!bins_.empty() && bins_.back().used < well_filled * capacity_ &&
                   rest_.size() + bins_.back().items.size() <= window_ / 2) {
                rest_.insert(rest_.end(), bins_.back().items.begin(), bins_.back().items.end());
                bins_.pop_back();
            }
            std::ranges::sort(rest_);  // as they came
        }
        for (Bin& bin : bins_) std::ranges::sort(bin.items);
        order_parts(bins_.size(), options_.no_shuffle == 0);
        return must_use_all || rest_.empty();
    }

    std::span<const uint32_t> items_of(uint32_t part) const override { return bins_[part].items; }

    static constexpr double well_filled = 0.995;
    sab_pack_stream_options options_;
    double capacity_;
    std::vector<uint32_t> sorted_;
    std::vector<Bin> bins_;
};

class BufferedShuffle : public SourceStage {
public:
    BufferedShuffle(uint64_t buffer_size, uint64_t seed)
        : buffer_(buffer_size), seed_(seed), random_(seed), capacity_(buffer_size) {}

    bool next(Record& record) override {
        while (!is_flushing_) {
            Record item;
            if (!source_->next(item)) {
                is_flushing_ = true;
                break;
            }
            if (item.view.kind == SAB_RECORD_BYTES) leave_block(item);
            Record& drawn = buffer_[random_.below(buffer_.size())];
            std::swap(drawn, item);
            if (item.owner.get() == nullptr) continue;
            record = std::move(item);
            return true;
        }
        while (!buffer_.empty()) {
            Record item = std::move(buffer_.back());
            buffer_.pop_back();
            if (item.owner.get() == nullptr) continue;
            record = std::move(item);
            return true;
        }
        return false;
    }
    bool measure(sab_text_unit unit) override { return source_->measure(unit); }
    void rewind() override {
        source_->rewind();
        random_ = PythonRandom(seed_);
        is_flushing_ = false;
        buffer_.clear();
        buffer_.resize(capacity_);  // allocates nothing: it was as long before
    }
    void save(StateWriter& state) const override {
        source_->save(state);
        state.generator(random_.generator());
        state.number(is_flushing_);
        state.number(buffer_.size());
        const ObjectKinds kinds = objects_in(*this);
        for (const Record& record : buffer_) {
            state.number(record.owner.get() != nullptr);
            if (record.owner.get() != nullptr) write_record(state, record, kinds);
        }
    }
    void restore(StateReader& state) override {
        source_->restore(state);
        state.generator(random_.generator());
        is_flushing_ = state.number(1) == 1;
        buffer_.clear();
        buffer_.resize(state.number(capacity_));
        if (!is_flushing_ && buffer_.size() != capacity_) StateReader::refuse();
        const ObjectKinds kinds = objects_in(*this);
        for (Record& record : buffer_) {
            if (state.number(1) == 0) continue;
            record = read_record(state, kinds, copier_);
            if (record.view.kind == SAB_RECORD_BYTES) leave_block(record);
        }
    }
    void describe(Description& description) const override {
        source_->describe(description);
        description.add("buffered shuffle");
        description.add(capacity_);
        description.add(seed_);
    }
    StreamPtr fresh() const override {
        return make_stage<BufferedShuffle>(source_->fresh(), capacity_, seed_);
    }

private:
    /// Moves the bytes to a block of their own: a few records that stay long must not keep blocks
    /// of many.
    static void leave_block(Record& record) noexcept {
        try {
            auto block = std::make_unique<Block>(record.view.length);
            if (record.view.length > 0)
                std::memcpy(block->data(), record.view.data, record.view.length);
            record.view.data = block->data();
            record.owner = Kept(block.release());
        } catch (const std::bad_alloc&) {  // ignored: the bytes stay in their block
        }
    }

    std::vector<Record> buffer_;
    uint64_t seed_;
    PythonRandom random_;
    uint64_t capacity_;
    bool is_flushing_ = false;
    Copier copier_;
};

}  // namespace

static void check_readahead(const sab_readahead_stream_options& options) {
    check(options.read_ahead <= most_records, "options.read_ahead", options.read_ahead,
          "must be at most 2^32");
    check(options.batch_size > 0 || options.budget_count > 0 || options.batch_size_fn != nullptr,
          "options.batch_size", options.batch_size,
          "a batch size, a budget or a batch_size_fn must be given");
    check(options.no_shuffle == 0 || options.no_shuffle == 1, "options.no_shuffle",
          options.no_shuffle, "must be 0 or 1");
    check(options.carry_over == 0 || options.carry_over == 1, "options.carry_over",
          options.carry_over, "must be 0 or 1");
    check(options.carry_over == 0 || options.boundary_key_fn == nullptr, "options.carry_over",
          options.carry_over, "does not go with a boundary_key_fn");
    check(options.oversize >= SAB_OVERSIZE_ERROR && options.oversize <= SAB_OVERSIZE_SINGLE,
          "options.oversize", options.oversize,
          "must be one of SAB_OVERSIZE_ERROR (0) to SAB_OVERSIZE_SINGLE (2)");
    check(options.carry_over == 0 || options.read_ahead <= most_records / 2, "options.read_ahead",
          options.read_ahead, "must be at most 2^31 with carry_over");
}

/// The limit of the one budget of records of one size; 0 without one.
static double limit_of(const sab_readahead_stream_options& options) {
    check(options.budget_count <= 1, "options.budget_count", options.budget_count,
          "must be at most 1 for one size");
    const std::vector<std::string> no_name(1);
    const std::vector<Budget> budgets =
        read_budgets(options.budgets, options.budget_count, no_name, "options.budgets");
    if (budgets.empty()) return 0;
    check(options.budgets[0].cost == nullptr, "options.budgets[0].cost", "given",
          "must be NULL for one size");
    return budgets[0].limit;
}

StagePtr make_readahead(const sab_readahead_stream_options& options) {
    check_readahead(options);
    if (options.columns > 0 || options.sizes_fn != nullptr) return make_column_readahead(options);
    const double limit = limit_of(options);
    sab_readahead_stream_options kept = options;
    kept.budgets = nullptr;  // read during the call
    return std::make_unique<ReadAhead>(kept, limit, context_of(options.ctx, options.release));
}

StagePtr make_pack(const sab_pack_stream_options& options) {
    check(options.capacity_count >= 1, "options.capacity_count", options.capacity_count,
          "must be at least 1");
    require(options.capacities, "options.capacities");
    check(options.read_ahead <= most_records / 2, "options.read_ahead", options.read_ahead,
          "must be at most 2^31");
    check(options.no_shuffle == 0 || options.no_shuffle == 1, "options.no_shuffle",
          options.no_shuffle, "must be 0 or 1");
    check(options.oversize == SAB_OVERSIZE_ERROR || options.oversize == SAB_OVERSIZE_SKIP,
          "options.oversize", options.oversize,
          "must be SAB_OVERSIZE_ERROR (0) or SAB_OVERSIZE_SKIP (1)");
    if (options.capacity_count > 1 || options.sizes_fn != nullptr) return make_column_pack(options);
    const double capacity = options.capacities[0];
    check(capacity > 0 && std::isfinite(capacity), "options.capacities[0]", capacity,
          "must be finite and above 0");
    sab_pack_stream_options kept = options;
    kept.capacities = nullptr;  // read during the call
    return std::make_unique<Pack>(kept, capacity, context_of(options.ctx, options.release));
}

StagePtr make_shuffle(sab_stream_shuffle shuffle, uint64_t size, uint64_t seed) {
    check(shuffle == SAB_SHUFFLE_BLOCKS || shuffle == SAB_SHUFFLE_BUFFER, "shuffle", shuffle,
          "must be SAB_SHUFFLE_BLOCKS or SAB_SHUFFLE_BUFFER");
    check(size >= 1 && size <= most_records, "size", size, "must be from 1 to 2^32");
    if (shuffle == SAB_SHUFFLE_BLOCKS) return std::make_unique<BlockShuffle>(size, seed);
    return std::make_unique<BufferedShuffle>(size, seed);
}

}  // namespace sab
