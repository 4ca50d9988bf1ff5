/// Windows of records, shuffled: as they are, or as batches of like size.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "stream/python_random.h"
#include "stream/stream.h"

namespace sab {
namespace {

/// A state is that of the source and the generator before the window, and how many of its batches were given.
class Ahead : public Stream {
public:
    Ahead(StreamPtr&& source, bool makes_batches, const sab_readahead_stream_options& options)
        : source_(std::move(source)), makes_batches_(makes_batches), options_(options), random_(options.seed) {}

    RecordPtr next() override {
        while (given_ == batches_.size()) {
            if (is_over_) return nullptr;
            read();
        }
        return std::move(batches_[given_++]);
    }

    void rewind() override {
        source_->rewind();
        random_ = PythonRandom(options_.seed);
        is_over_ = false;
        forget();
    }

    void save(StateWriter& state) const override {
        if (!items_.empty()) fail(SAB_E_ARGUMENT, "stream: failed while it read ahead: call sab_stream_next() until it does not, or restore an earlier state");
        const bool has_window = !batches_.empty();
        state.bytes(has_window ? before_ : state_of(*source_));
        state.generator((has_window ? random_before_ : random_).generator());
        state.number(given_);
        state.number(has_window);
        state.number(is_over_);
    }

    void restore(StateReader& state) override {
        forget();
        const auto before = state.bytes();
        StateReader source(before);
        source_->restore(source);
        state.generator(random_.generator());
        const uint64_t given = state.number();
        const bool has_window = state.number(1) == 1;
        const bool is_over = state.number(1) == 1;
        is_over_ = !has_window && is_over;
        if (has_window) read();
        if (given > batches_.size() || is_over != is_over_) StateReader::refuse();
        for (; given_ < given; ++given_) batches_[given_] = nullptr;
    }

    void describe(Description& description) const override {
        source_->describe(description);
        description.add(makes_batches_ ? "readahead" : "block shuffle");
        for (const uint64_t number : {options_.read_ahead, options_.batch_size, static_cast<uint64_t>(options_.shuffle), options_.seed}) description.add(number);
        description.add(options_.budget);
    }

private:
    void forget() {
        items_.clear();
        batches_.clear();
        given_ = 0;
    }

    /// The next window's batches.
    void read() {
        if (items_.empty()) {
            before_ = state_of(*source_);
            random_before_ = random_;
        }
        while (items_.size() < options_.read_ahead) {  // what came before a failure is kept
            RecordPtr item = source_->next();
            if (item == nullptr) {
                is_over_ = true;
                break;
            }
            items_.push_back(std::move(item));
        }
        batches_.clear();
        given_ = 0;
        if (makes_batches_)
            make_batches();
        else
            batches_ = std::move(items_);
        items_.clear();
        if (options_.shuffle != 0) random_.shuffle(batches_);
    }

    void make_batches() {
        std::ranges::stable_sort(items_, std::ranges::greater{}, [](const RecordPtr& item) { return item->size; });
        uint64_t most = 0;
        std::shared_ptr<Record> batch;
        for (RecordPtr& item : items_) {
            if (batch == nullptr) {
                most = largest(item->size);
                batch = std::make_shared<Record>();
                batch->is_list = true;
            }
            batch->size += item->size;
            batch->items.push_back(std::move(item));
            if (batch->items.size() >= most) batches_.push_back(std::exchange(batch, nullptr));
        }
        if (batch != nullptr) batches_.push_back(std::move(batch));
    }

    /// The most records in a batch whose largest has this size.
    uint64_t largest(double size) const {
        double most = options_.batch_size > 0 ? static_cast<double>(options_.batch_size) : static_cast<double>(options_.read_ahead);
        if (options_.budget > 0 && size > 0) most = std::min(most, std::floor(options_.budget / size));
        return static_cast<uint64_t>(std::max(most, 1.0));
    }

    StreamPtr source_;
    bool makes_batches_;
    sab_readahead_stream_options options_;
    PythonRandom random_, random_before_{0};
    Bytes before_;
    std::vector<RecordPtr> items_;  ///< of a window that is being read
    std::vector<RecordPtr> batches_;  ///< of the window, or its records
    uint64_t given_ = 0;
    bool is_over_ = false;
};

}  // namespace

StreamPtr make_readahead(StreamPtr&& source, const sab_readahead_stream_options& options) {
    check(options.read_ahead >= 1, "options.read_ahead", options.read_ahead, "must be at least 1");
    check(options.budget >= 0 && std::isfinite(options.budget), "options.budget", options.budget, "must be finite and not negative");
    check(options.batch_size > 0 || options.budget > 0, "options.batch_size", options.batch_size, "a batch size or a budget must be given");
    check(options.shuffle == 0 || options.shuffle == 1, "options.shuffle", options.shuffle, "must be 0 or 1");
    return std::make_unique<Ahead>(std::move(source), true, options);
}

StreamPtr make_block_shuffle(StreamPtr&& source, uint64_t block_size, uint64_t seed) {
    check(block_size >= 1, "block_size", block_size, "must be at least 1");
    sab_readahead_stream_options options = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    options.read_ahead = block_size;
    options.seed = seed;
    return std::make_unique<Ahead>(std::move(source), false, options);
}

}  // namespace sab
