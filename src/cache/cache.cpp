#include "cache/cache.h"

#include <algorithm>
#include <new>
#include <thread>

#include "base/forks.h"
#include "cache/forks.h"

namespace sab::cache {

using Clock = std::chrono::steady_clock;

/// What is another's after a fork: made anew in a child.
struct Cache::State {
    std::unique_ptr<Store> store;
    std::mutex buffering, flushing;
    Buffer buffer, under_way;  // what is to be written, and what is being written
    bool is_left = false;      // a flush ran out of memory: `under_way` is still to be written
    Clock::time_point oldest;  // when the first came into the buffer
};

namespace {

constexpr Clock::duration longest_poll = std::chrono::milliseconds(50);

Clock::duration seconds(double count) {
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(std::min(count, 1e8)));
}

/// Of a frame that this process made.
View of_frame(std::shared_ptr<const std::string> frame) {
    const std::string_view value = std::string_view(*frame).substr(frame_header_size);
    return {std::move(frame), value};
}

}  // namespace

Cache::Cache(std::string_view url, const sab_cache_options& options)
    : open_(store_of(url, options)),
      settings_{options.dataset_name == nullptr ? std::nullopt
                                                : std::optional<std::string>(options.dataset_name),
                options.writer_buffer_size, options.flush_interval,
                std::max(options.load_wait, 0.0), options.on_failure} {
    watch_forks();
    try {
        url_ = state().store->url();
        Outcome outcome;
        if (settings_.on_failure == SAB_CACHE_ERROR) state().store->check(outcome);
        if (!outcome.failure.empty()) fail(SAB_E_IO, std::string_view(outcome.failure));
        add_to_open(this);
    } catch (...) {
        delete state_.load();
        throw;
    }
}

Cache::~Cache() {
    remove_from_open(this);
    try {
        flush();
    } catch (...) {  // ignored: counted, and a destructor has no result
    }
    delete state_.load();
}

Cache::State& Cache::state() {
    State* known = state_.load(std::memory_order_acquire);
    if (known != nullptr) return *known;
    const std::scoped_lock lock(making_state_);
    known = state_.load(std::memory_order_acquire);
    if (known == nullptr) {
        auto made = std::make_unique<State>();
        made->store = open_();
        known = made.release();
        state_.store(known, std::memory_order_release);
    }
    return *known;
}

void Cache::before_fork() noexcept {
    try {
        flush();
    } catch (...) {  // ignored: unwritten values stay with the parent or are counted
    }
}

void Cache::in_child() noexcept {
    new (&making_state_) std::mutex;
    // the parent's, with its locks, connections and buffer, is left as it is
    state_.store(nullptr);
}

std::string Cache::full(std::string_view key) const {
    std::string whole;
    append_full(whole, key);
    return whole;
}

void Cache::append_full(std::string& out, std::string_view key) const {
    if (settings_.dataset_name) out.append(*settings_.dataset_name).append("_");
    out.append(key);
}

void Cache::settle(const Outcome& outcome) {
    counters_.evictions += outcome.evictions;
    counters_.dropped += outcome.dropped;
    if (outcome.failure.empty()) return;
    ++counters_.failures;
    if (settings_.on_failure == SAB_CACHE_ERROR) fail(SAB_E_IO, std::string_view(outcome.failure));
}

std::vector<std::optional<View>> Cache::find(std::span<const std::string> keys) {
    State& own = state();
    std::vector<std::optional<View>> found(keys.size());
    std::vector<std::string_view> missing;
    std::vector<std::size_t> missing_at;
    {
        const std::scoped_lock lock(own.buffering);
        for (std::size_t i = 0; i < keys.size(); ++i) {
            const std::shared_ptr<const std::string>* frame = nullptr;
            for (const Buffer* const buffer : {&own.buffer, &own.under_way})
                if (const auto it = frame == nullptr ? buffer->find(keys[i]) : buffer->end();
                    it != buffer->end())
                    frame = &it->second;
            if (frame != nullptr) {
                found[i] = of_frame(*frame);
            } else {
                missing.push_back(keys[i]);
                missing_at.push_back(i);
            }
        }
    }
    if (missing.empty()) return found;
    Outcome outcome;
    auto kept = own.store->get(missing, outcome);
    settle(outcome);
    for (std::size_t i = 0; i < missing.size(); ++i) {
        if (!kept[i]) continue;
        if (const auto value = unframed(missing[i], kept[i]->bytes))
            found[missing_at[i]] = View{std::move(kept[i]->owner), *value};
        else
            ++counters_.damaged;
    }
    return found;
}

std::vector<std::optional<View>> Cache::get(std::span<const std::string_view> keys) {
    flush_if_due();
    std::vector<std::string> whole;
    whole.reserve(keys.size());
    for (const std::string_view key : keys) whole.push_back(full(key));
    auto found = find(whole);
    for (const auto& each : found) {
        ++(each ? counters_.hits : counters_.misses);
        if (each) counters_.bytes_read += each->bytes.size();
    }
    return found;
}

View Cache::get_or_load(std::string_view given, const Load& load, const Progress& progress) {
    if (auto found = std::move(get({&given, 1})[0])) return std::move(*found);
    const std::string key = full(given);
    const auto start = Clock::now(), deadline = start + seconds(settings_.load_wait);
    const auto wait_report = [&] {
        const auto in_ms = [](Clock::duration time) {
            return static_cast<uint64_t>(
                std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
        };
        progress.report(in_ms(Clock::now() - start), in_ms(deadline - start));
    };
    Store& store = *state().store;
    Flights& flights = store.flights();
    while (true) {
        const auto [flight, is_ours] = flights.join(key);
        if (!is_ours) {
            bool is_over = false;
            while (!is_over && Clock::now() < deadline && !flights.waits_for_me(*flight)) {
                is_over = flights.wait(*flight, std::min(deadline, Clock::now() + longest_poll));
                if (!is_over) wait_report();
            }
            if (!is_over) return of_frame(load_and_keep(key, load));
            if (flight->value != nullptr) {
                ++counters_.waits;
                return of_frame(flight->value);
            }
            continue;  // whoever made it failed: perhaps this one can
        }
        std::shared_ptr<const std::string> made;
        struct Landing {
            Flights& flights;
            const std::string& key;
            const std::shared_ptr<Flights::Flight>& flight;
            std::shared_ptr<const std::string>& made;
            const uint64_t generation = count_forks();
            ~Landing() {
                // in a child that was forked by `load` it is the parent's
                if (generation == count_forks()) flights.land(key, flight, made);
            }
        } landing{flights, key, flight, made};
        const auto is_made_by_another = [&] {
            const auto found = std::move(find({&key, 1})[0]);
            if (!found) return false;
            ++counters_.waits;
            made = std::make_shared<const std::string>(framed(key, found->bytes));
            return true;
        };
        // Others, in other processes, may be making it.
        std::unique_ptr<Claim> claim;
        for (auto pause = Clock::duration(std::chrono::milliseconds(1));
             (claim = store.claim(key, std::max(settings_.load_wait, 1.0))) == nullptr &&
             Clock::now() < deadline;
             pause = std::min<Clock::duration>(pause * 2, longest_poll)) {
            std::this_thread::sleep_for(std::min(pause, deadline - Clock::now()));
            wait_report();
            if (is_made_by_another()) return of_frame(made);
        }
        // it may have been between our look and our claim
        if (!is_made_by_another()) made = load_and_keep(key, load);
        return of_frame(made);
    }
}

std::shared_ptr<const std::string> Cache::load_and_keep(const std::string& key, const Load& load) {
    auto frame = std::make_shared<const std::string>(framed(key, load()));
    keep(key, frame);
    ++counters_.loads;
    return frame;
}

void Cache::keep(const std::string& key, std::shared_ptr<const std::string> frame) {
    State& own = state();
    if (settings_.writer_buffer_size <= 1) {
        const Item item{key, *frame};
        write({&item, 1});
        return;
    }
    bool is_full = false;
    {
        const std::scoped_lock lock(own.buffering);
        if (own.buffer.empty()) own.oldest = Clock::now();
        own.buffer[key] = std::move(frame);
        is_full = own.buffer.size() >= settings_.writer_buffer_size;
    }
    if (!is_full) return;
    try {
        flush();
    } catch (const std::bad_alloc&) {  // ignored: the value is kept, the next call writes it
    }
}

void Cache::put(std::string_view key, std::string_view value) {
    flush_if_due();
    const std::string whole = full(key);
    keep(whole, std::make_shared<const std::string>(framed(whole, value)));
}

void Cache::put_all(std::span<const Item> items) {
    // All keys and frames lie in one string, whose memory must not move while it grows.
    const std::size_t prefix = full({}).size() + frame_header_size;
    std::size_t size = 0;
    for (const Item& item : items) size += prefix + item.key.size() + item.value.size();
    std::string bytes;
    bytes.reserve(size);
    std::vector<Item> whole;
    whole.reserve(items.size());
    for (const Item& item : items) {
        const std::size_t begin = bytes.size();
        append_full(bytes, item.key);
        const std::string_view key = std::string_view(bytes).substr(begin);
        append_frame(bytes, key, item.value);
        whole.push_back({key, std::string_view(bytes).substr(begin + key.size())});
    }
    flush();  // older values first
    write(whole);
}

void Cache::write(std::span<const Item> items) {
    Outcome outcome;
    state().store->put(items, outcome);
    if (outcome.dropped == 0)
        for (const Item& item : items) counters_.bytes_written += item.value.size();
    settle(outcome);
}

void Cache::flush_if_due() {
    State& own = state();
    if (settings_.writer_buffer_size <= 1) return;
    {
        const std::scoped_lock lock(own.buffering);
        const bool is_due =
            !own.buffer.empty() && Clock::now() - own.oldest >= seconds(settings_.flush_interval);
        if (!is_due && !own.is_left) return;
    }
    flush();
}

void Cache::flush() {
    if (state_.load() == nullptr) return;  // a child that has not used it: nothing is in its buffer
    State& own = state();
    const std::scoped_lock one(own.flushing);
    if (own.is_left) write_under_way(own);  // older than what is in the buffer
    {
        const std::scoped_lock lock(own.buffering);
        if (own.buffer.empty()) return;
        own.under_way.swap(own.buffer);
    }
    write_under_way(own);
}

/// Under `flushing`. For lack of memory nothing is lost: the values stay where get() finds them,
/// and the next flush writes them before newer ones. Otherwise they are written, or counted as
/// dropped.
void Cache::write_under_way(State& own) {
    const auto is_over = [&](bool is_left) {
        const std::scoped_lock lock(own.buffering);
        own.is_left = is_left;
        if (!is_left) own.under_way.clear();
    };
    try {
        std::vector<Item> items;
        items.reserve(own.under_way.size());
        for (const auto& [key, frame] : own.under_way) items.push_back({key, *frame});
        write(items);
    } catch (const std::bad_alloc&) {
        is_over(true);
        throw;
    } catch (...) {
        is_over(false);
        throw;
    }
    is_over(false);
}

uint64_t Cache::count() {
    flush();
    Outcome outcome;
    const uint64_t keys = state().store->count(outcome);
    settle(outcome);
    return keys;
}

void Cache::clear() {
    State& own = state();
    const std::scoped_lock one(own.flushing);
    Outcome outcome;
    own.store->clear(outcome);
    {
        const std::scoped_lock lock(own.buffering);
        own.buffer.clear();
        own.under_way.clear();
        own.is_left = false;
    }
    settle(outcome);
}

sab_cache_stats Cache::stats() const {
    sab_cache_stats stats = SAB_CACHE_STATS_INIT;
    stats.hits = counters_.hits;
    stats.misses = counters_.misses;
    stats.loads = counters_.loads;
    stats.waits = counters_.waits;
    stats.evictions = counters_.evictions;
    stats.damaged = counters_.damaged;
    stats.failures = counters_.failures;
    stats.dropped = counters_.dropped;
    stats.bytes_read = counters_.bytes_read;
    stats.bytes_written = counters_.bytes_written;
    if (State* const own = state_.load()) {
        const std::scoped_lock lock(own->buffering);
        stats.buffered = own->buffer.size() + own->under_way.size();
    }
    stats.url = url().c_str();
    return stats;
}

}  // namespace sab::cache
