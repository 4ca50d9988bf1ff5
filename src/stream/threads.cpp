/// Streams that run in threads: records taken ahead of time, and maps of many records at once.
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "stream/stream.h"

namespace sab {
namespace {

/// Milliseconds of a clock that is cheap to read, for it is read once a record, and moves every few of them.
int64_t coarse_milliseconds() {
#ifdef CLOCK_MONOTONIC_COARSE
    constexpr clockid_t cheapest = CLOCK_MONOTONIC_COARSE;
#else
    constexpr clockid_t cheapest = CLOCK_MONOTONIC;
#endif
    timespec now{};
    clock_gettime(cheapest, &now);
    return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

/// How often this process became the child of a fork: the threads of before are gone, and what they touched is in no known state.
uint64_t count_forks() {
    static std::atomic<uint64_t> forks{0};
    static const int registered = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
    (void)registered;
    return forks.load(std::memory_order_relaxed);
}

/// Waits for a condition; the caller may follow and cancel meanwhile.
template <class Ready>
void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Ready&& ready) {
    while (!changed.wait_for(lock, std::chrono::milliseconds(50), ready)) {
        lock.unlock();
        report_progress(0, 0);
        lock.lock();
    }
}

/// A thread takes the records of the source in blocks, each with a mark before it.
class Prefetch : public Stream {
public:
    Prefetch(StreamPtr&& source, uint64_t buffer_size) : buffer_size_(buffer_size), side_(std::make_unique<Side>()) { side_->source = std::move(source); }
    ~Prefetch() override { stop(); }

    bool next(Record& record) override {
        for (;;) {
            if (given_ < block_.records.size()) {  // they are here, also in the child of a fork
                record = std::move(block_.records[given_++]);
                return true;
            }
            check_fork();
            if (block_.failure) std::rethrow_exception(std::exchange(block_.failure, nullptr));
            if (block_.is_last) return false;
            take();
        }
    }

    void rewind() override {
        is_astray_ = false;
        check_fork();
        stop();
        forget();
        side_->source->rewind();
    }

    void save(StateWriter& state) const override {
        if (has_begun_) return block_.mark.save(state, given_);
        Mark::save_of(*side_->source, state);
    }

    void restore(StateReader& state) override {
        is_astray_ = false;
        check_fork();
        stop();
        forget();
        block_.mark.restore(state, *side_->source);
        side_->mark = block_.mark;
        has_begun_ = true;
    }

    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        side_->source->describe(description);
        description.add("prefetch");
    }
    StreamPtr fresh() const override { return std::make_unique<Prefetch>(side_->source->fresh(), buffer_size_); }
    uint64_t skipped() const override { return side_->thread.joinable() ? side_->skipped.load(std::memory_order_relaxed) : side_->source->skipped(); }
    void add_objects(ObjectKinds& kinds) const override { side_->source->add_objects(kinds); }

private:
    struct Block {
        Mark mark;  ///< before the first
        std::vector<Record> records;
        std::exception_ptr failure;  ///< after them
        bool is_last = false;
    };
    /// What the thread touches. Abandoned whole after a fork.
    struct Side {
        StreamPtr source;
        Mark mark;  ///< where the thread is
        std::thread thread;
        std::mutex mutex;
        std::condition_variable changed;
        bool is_running = false;
        std::deque<Block> blocks;
        uint64_t waiting = 0;  ///< records in them
        std::atomic<bool> is_hungry{false}, is_stopping{false};
        std::atomic<uint64_t> skipped{0};
    };

    void forget() {
        block_ = {};
        side_->mark = {};
        given_ = 0;
        has_begun_ = is_astray_ = false;
    }

    void check_fork() {
        const uint64_t now = count_forks();
        if (is_astray_) {
            side_->mark.go(*side_->source);
            is_astray_ = false;
        }
        if (std::exchange(forks_, now) == now || !side_->thread.joinable()) return;
        Side* const gone = side_.release();  // never freed: its thread may have been in the middle of anything
        side_ = std::make_unique<Side>();
        side_->source = gone->source->fresh();
        // The records of the block at hand are here; the thread goes on behind them.
        side_->mark = block_.mark;
        side_->mark.taken += block_.records.size();
        is_astray_ = true;
        side_->mark.go(*side_->source);
        is_astray_ = false;
    }

    void stop() {
        if (!side_->thread.joinable()) return;
        if (forks_ != count_forks()) {  // in a child that only frees it
            (void)side_.release();
            side_ = std::make_unique<Side>();
            return;
        }
        {
            const std::scoped_lock lock(side_->mutex);
            side_->is_stopping = true;
        }
        side_->changed.notify_all();
        if (side_->thread.get_id() == std::this_thread::get_id()) {  // freed by a callback that it runs: nobody can wait for it
            side_->thread.detach();
            (void)side_.release();
            side_ = std::make_unique<Side>();
            return;
        }
        side_->thread.join();
        side_->thread = std::thread();
        side_->is_stopping = side_->is_running = false;
        side_->blocks.clear();
        side_->waiting = 0;
    }

    /// The next block of the thread, which is started where it does not run.
    void take() {
        Side& side = *side_;
        std::unique_lock lock(side.mutex);
        if (side.blocks.empty()) {
            if (!side.is_running) start();
            side.is_hungry = true;
            wait(lock, side.changed, [&] { return !side.blocks.empty(); });
            side.is_hungry = false;
        }
        block_ = std::move(side.blocks.front());
        side.blocks.pop_front();
        side.waiting -= block_.records.size();
        given_ = 0;
        lock.unlock();
        side.changed.notify_all();
    }

    void start() {
        Side& side = *side_;
        if (side.thread.joinable()) side.thread.join();  // it ended with a failure, and is past its last use of the lock
        if (!has_begun_) {
            side.mark.move_to(*side.source);
            block_.mark = side.mark;
            has_begun_ = true;
        }
        side.is_running = true;
        try {
            side.thread = std::thread(&run, std::ref(side), buffer_size_);
        } catch (const std::system_error& error) {
            side.is_running = false;
            fail(SAB_E_NO_MEMORY, "a thread could not be started: ", std::string_view(error.what()));
        }
    }

    static void run(Side& side, uint64_t buffer_size) {
        const uint64_t usual = std::clamp<uint64_t>(buffer_size / 4, 1, 1024);
        const Progress until_stopped([](void* ctx, uint64_t, uint64_t) { return int32_t{static_cast<Side*>(ctx)->is_stopping}; }, &side);
        const CurrentProgress current(&until_stopped);
        while (!side.is_stopping) {
            Block block;
            try {
                side.mark.move_to(*side.source);
                block.mark = side.mark;
                block.records.reserve(usual);
                const int64_t begun = coarse_milliseconds();
                while (block.records.size() < usual && !side.is_stopping) {
                    Record record;
                    if (!side.source->next(record)) {
                        block.is_last = true;
                        break;
                    }
                    block.records.push_back(std::move(record));
                    ++side.mark.taken;
                    // A source that is slow need not fill a block while somebody waits.
                    if (side.is_hungry.load(std::memory_order_relaxed) && coarse_milliseconds() - begun > 2) break;
                }
            } catch (...) {
                block.failure = std::current_exception();
            }
            side.skipped.store(side.source->skipped(), std::memory_order_relaxed);
            const bool is_over = block.is_last || block.failure;
            std::unique_lock lock(side.mutex);
            side.waiting += block.records.size();
            side.blocks.push_back(std::move(block));
            if (is_over) side.is_running = false;
            side.changed.notify_all();
            if (is_over) return;
            side.changed.wait(lock, [&] { return side.is_stopping || side.waiting == 0 || side.waiting + usual <= buffer_size; });
        }
    }

    const uint64_t buffer_size_;
    std::unique_ptr<Side> side_;
    Block block_;            ///< that is being given
    std::size_t given_ = 0;  ///< of its records
    bool has_begun_ = false; ///< its mark holds
    bool is_astray_ = false; ///< the source did not get to the thread's mark after a fork: a callback failed on the way
    uint64_t forks_ = count_forks();
};

/// The thread that takes the records takes them from the source too, in tasks; others map them.
class ParallelMap : public Making {
public:
    ParallelMap(StreamPtr&& source, sab_map_fn map, Context context, ObjectsPtr objects, uint64_t threads)
        : Making(std::move(source), std::move(objects)), map_(map), context_(std::move(context)), threads_(threads), side_(std::make_unique<Side>()) {}
    ~ParallelMap() override { stop(); }

    bool next(Record& record) override {
        check_fork();
        for (;;) {
            if (task_ != nullptr) {
                Task& task = *task_;
                if (given_ < task.out.size()) {
                    record = std::move(task.out[given_++]);
                    return true;
                }
                if (task.failure) std::rethrow_exception(std::exchange(task.failure, nullptr));
                if (given_ < task.in.size()) {  // it failed on this one: again, here
                    task.out.push_back(mapped(task.in[given_], copier_));
                    continue;
                }
                if (task.source_failure) std::rethrow_exception(std::exchange(task.source_failure, nullptr));
                if (task.is_last) return false;
            }
            fill();
            std::unique_lock lock(side_->mutex);
            wait(lock, side_->changed, [&] { return tasks_.front()->is_done; });
            task_ = std::move(tasks_.front());
            tasks_.pop_front();
            given_ = 0;
        }
    }

    void rewind() override {
        forget();
        source_->rewind();
    }
    void save(StateWriter& state) const override {
        if (task_ != nullptr) return task_->mark.save(state, given_);
        if (!tasks_.empty()) return tasks_.front()->mark.save(state, 0);
        Mark::save_of(*source_, state);
    }
    void restore(StateReader& state) override {
        forget();
        mark_.restore(state, *source_);
    }
    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        source_->describe(description);
        description.add("parallel map");
    }
    StreamPtr fresh() const override { return std::make_unique<ParallelMap>(source_->fresh(), map_, context_, objects_, threads_); }

private:
    static constexpr std::size_t usual = 64;  ///< records of a task

    struct Task {
        Mark mark;  ///< of the source, before the first
        std::vector<Record> in, out;
        std::exception_ptr failure, source_failure;
        bool is_last = false;
        bool is_done = false;  ///< under the lock
    };
    /// What threads touch. Abandoned whole after a fork.
    struct Side {
        std::mutex mutex;
        std::condition_variable changed, work;
        std::deque<Task*> waiting;
        std::atomic<bool> is_stopping{false};
        std::vector<std::thread> threads;
    };

    Record mapped(const Record& record, Copier& copier) const {
        sab_record made = record.view;
        call_back("map", [&] { return map_(context_.get(), &record.view, &made); });
        return taken("map: made", made, Record(record), objects_, copier);  // a copy: after a fork it is mapped again
    }

    /// Keeps the threads busy: two tasks for each.
    void fill() {
        while (side_->threads.size() < threads_) {
            try {
                side_->threads.emplace_back(&run, this, std::ref(*side_));
            } catch (const std::system_error& error) {  // fewer do as well
                if (side_->threads.empty()) fail(SAB_E_NO_MEMORY, "a thread could not be started: ", std::string_view(error.what()));
                break;
            }
        }
        while (tasks_.size() < 2 * threads_ + 1) {
            if (!tasks_.empty() && (tasks_.back()->is_last || tasks_.back()->source_failure)) break;
            auto task = std::make_shared<Task>();
            mark_.move_to(*source_);
            task->mark = mark_;
            try {
                for (Record record; task->in.size() < usual;) {
                    if (!source_->next(record)) {
                        task->is_last = true;
                        break;
                    }
                    task->in.push_back(std::move(record));
                    ++mark_.taken;
                }
            } catch (...) {
                task->source_failure = std::current_exception();
            }
            hand_out(std::move(task));
        }
    }

    void hand_out(std::shared_ptr<Task>&& task) {
        const std::scoped_lock lock(side_->mutex);
        tasks_.push_back(task);
        side_->waiting.push_back(task.get());
        side_->work.notify_one();
    }

    static void run(const ParallelMap* map, Side& side) {
        Copier copier;
        std::unique_lock lock(side.mutex);
        for (;;) {
            side.work.wait(lock, [&] { return side.is_stopping || !side.waiting.empty(); });
            if (side.is_stopping) return;
            Task& task = *side.waiting.front();
            side.waiting.pop_front();
            lock.unlock();
            try {
                task.out.reserve(task.in.size());
                for (const Record& record : task.in) {
                    if (side.is_stopping) break;
                    task.out.push_back(map->mapped(record, copier));
                }
            } catch (...) {
                task.failure = std::current_exception();
            }
            lock.lock();
            task.is_done = true;
            side.changed.notify_all();
        }
    }

    void check_fork() {
        const uint64_t now = count_forks();
        if (std::exchange(forks_, now) == now || side_->threads.empty()) return;
        (void)side_.release();  // never freed, nor the tasks: threads may have been in the middle of them
        side_ = std::make_unique<Side>();
        auto* const gone = new std::deque<std::shared_ptr<Task>>(std::move(tasks_));
        tasks_.clear();
        for (const auto& old : *gone) {
            auto task = std::make_shared<Task>();
            task->mark = old->mark;
            task->in = old->in;
            task->source_failure = old->source_failure;
            task->is_last = old->is_last;
            hand_out(std::move(task));
        }
    }

    void forget() {
        stop();
        task_ = nullptr;
        tasks_.clear();
        given_ = 0;
        mark_ = {};
    }

    void stop() {
        if (side_->threads.empty()) return;
        if (forks_ != count_forks()) {
            (void)side_.release();
            side_ = std::make_unique<Side>();
            new std::deque<std::shared_ptr<Task>>(std::move(tasks_));
            tasks_.clear();
            forks_ = count_forks();
            return;
        }
        {
            const std::scoped_lock lock(side_->mutex);
            side_->is_stopping = true;
        }
        side_->work.notify_all();
        for (std::thread& thread : side_->threads) thread.join();
        side_ = std::make_unique<Side>();
    }

    sab_map_fn map_;
    Context context_;
    uint64_t threads_;
    Copier copier_;
    std::unique_ptr<Side> side_;
    std::deque<std::shared_ptr<Task>> tasks_;  ///< in order, from the next one on
    std::shared_ptr<Task> task_;               ///< that is being given
    std::size_t given_ = 0;
    Mark mark_;
    uint64_t forks_ = count_forks();
};

}  // namespace

StreamPtr make_prefetch(StreamPtr&& source, uint64_t buffer_size) {
    check(buffer_size >= 1 && buffer_size <= most_records, "buffer_size", buffer_size, "must be from 1 to 2^32");
    return std::make_unique<Prefetch>(std::move(source), buffer_size);
}

StreamPtr make_parallel_map(StreamPtr&& source, const sab_map_stream_options& options) {
    return std::make_unique<ParallelMap>(std::move(source), options.map, context_of(options.ctx, options.release), objects_of(options.objects), options.threads);
}

}  // namespace sab
