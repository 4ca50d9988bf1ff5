/// Streams that run in threads: records taken ahead of time, and maps of many records at once.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "base/callback.h"
#include "stream/stream.h"
#include "stream/threads.h"

namespace sab {

namespace {
thread_local bool threads_are_left = false;
}

LeavingThreads::LeavingThreads() noexcept : before_(std::exchange(threads_are_left, true)) {}
LeavingThreads::~LeavingThreads() {
    threads_are_left = before_;
}
bool are_threads_left() noexcept {
    return threads_are_left;
}

bool Threads::is_one_of_them() const {
    return threads_ != nullptr && std::ranges::any_of(*threads_, [](const std::thread& thread) {
               return thread.get_id() == std::this_thread::get_id();
           });
}

void Threads::end(bool leaves) noexcept {
    if (threads_ == nullptr) return;
    for (std::thread& thread : *threads_) leaves ? thread.detach() : thread.join();
    threads_ = nullptr;
}

namespace {

/// Milliseconds of a clock that is cheap to read, for it is read once a record, and moves every few
/// of them.
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

/// A thread takes the records of the source in blocks, each with a mark before it.
class Prefetch : public Stage {
public:
    explicit Prefetch(uint64_t buffer_size)
        : buffer_size_(buffer_size), side_(std::make_shared<Side>()) {}
    ~Prefetch() override {
        if (thread_.count() == 0) return;
        if (forks_ != forks_now()) {
            thread_.forget();
        } else {
            tell_to_stop();
            thread_.end(are_threads_left() || thread_.is_one_of_them());
        }
    }
    void attach(StreamPtr source) noexcept override { side_->source = std::move(source); }

    bool next(Record& record) override {
        if (!find_record()) return false;
        record = std::move(block_.records[given_++]);
        return true;
    }
    std::size_t append(std::vector<Record>& into, std::size_t most) override {
        if (!find_record()) return 0;
        const std::size_t count = std::min(most, block_.records.size() - given_);
        into.resize(into.size() + count);
        for (Record& record : std::span(into).last(count))
            record = std::move(block_.records[given_++]);
        return count;
    }

    bool measure(sab_text_unit unit) override {
        return thread_.count() == 0 && side_->source->measure(unit);
    }
    void rewind() override {
        check_fork();
        stop();
        side_->source->rewind();
        forget();
    }

    void save(StateWriter& state) const override {
        if (has_begun_) return block_.mark.save(state, given_);
        Mark::save_of(*side_->source, state);
    }

    void restore(StateReader& state) override {
        check_fork();
        stop();
        forget();
        Mark mark;
        mark.restore(state, *side_->source);
        block_.mark = side_->mark = mark;
        has_begun_ = true;
    }

    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        side_->source->describe(description);
        description.add("prefetch");
    }
    StreamPtr fresh() const override {
        return make_stage<Prefetch>(side_->source->fresh(), buffer_size_);
    }
    uint64_t skipped() const override {
        return thread_.count() > 0 ? side_->skipped.load(std::memory_order_relaxed)
                                   : side_->source->skipped();
    }
    void check_any_left() const override { side_->source->check_any_left(); }
    void add_objects(ObjectKinds& kinds) const override { side_->source->add_objects(kinds); }

private:
    struct Block {
        Mark mark;  ///< before the first
        std::vector<Record> records;
    };
    /// What the thread shares with the stage.
    struct Side {
        StreamPtr source;
        Mark mark;  ///< where the thread is
        std::mutex mutex;
        std::condition_variable changed;
        bool is_running = false;
        std::list<Block> blocks;     ///< moved from list to list, which cannot fail
        std::exception_ptr failure;  ///< after them
        bool is_last = false;        ///< the source ends after them
        uint64_t waiting = 0;        ///< records in them
        std::atomic<bool> is_hungry{false}, is_stopping{false};
        std::atomic<uint64_t> skipped{0};
    };

    // registered by the constructor: does not fail
    static uint64_t forks_now() noexcept { return count_forks(); }

    /// Takes blocks until there is a record that was not given. False at the end.
    bool find_record() {
        while (given_ == block_.records.size()) {  // others are here, also in the child of a fork
            check_fork();
            find_place();
            if (!take()) return false;
        }
        return true;
    }

    void forget() noexcept {
        block_ = {};
        side_->blocks.clear();
        side_->failure = nullptr;
        side_->is_last = false;
        side_->waiting = 0;
        side_->mark = {};
        given_ = 0;
        has_begun_ = is_astray_ = false;
    }

    /// In the child of a fork: a source like the one that the thread had. The records of the block
    /// at hand are here; the thread goes on behind them.
    void check_fork() {
        const uint64_t now = count_forks();
        if (forks_ != now && thread_.count() > 0) {
            auto side = std::make_shared<Side>();
            side->source = side_->source->fresh();
            side->mark = block_.mark;
            side->mark.taken += block_.records.size();
            thread_.forget();
            side_ = std::move(side);
            is_astray_ = true;
        }
        forks_ = now;
    }

    void find_place() {
        if (!is_astray_) return;
        side_->mark.go(*side_->source);
        is_astray_ = false;
    }

    void tell_to_stop() noexcept {
        const std::scoped_lock lock(side_->mutex);
        side_->is_stopping = true;
        side_->changed.notify_all();
    }

    /// Ends the thread. What it has taken stays, so that next() can go on.
    void stop() {
        if (thread_.count() == 0) return;
        if (thread_.is_one_of_them())
            refuse_argument("stream", no_value,
                            "is in use: a function that its thread runs must not change its place");
        tell_to_stop();
        {
            std::unique_lock lock(side_->mutex);
            wait(lock, side_->changed, [&] { return !side_->is_running; });
        }
        thread_.end(false);
    }

    /// The next block of the thread, which is started where it does not run. False at the end.
    bool take() {
        Side& side = *side_;
        std::list<Block> next;
        std::unique_lock lock(side.mutex);
        while (side.blocks.empty()) {
            if (!side.is_running) {
                if (side.failure) std::rethrow_exception(std::exchange(side.failure, nullptr));
                if (side.is_last) return false;
                start();
            }
            side.is_hungry = true;
            wait(lock, side.changed, [&] { return !side.blocks.empty() || !side.is_running; });
            side.is_hungry = false;
        }
        next.splice(next.begin(), side.blocks, side.blocks.begin());
        side.waiting -= next.front().records.size();
        lock.unlock();
        side.changed.notify_all();
        block_ = std::move(next.front());
        given_ = 0;
        return true;
    }

    void start() {
        Side& side = *side_;
        thread_.end(false);  // the one before has ended, and is past its last use of the lock
        if (!has_begun_) {
            side.mark.move_to(*side.source);
            block_.mark = side.mark;
            has_begun_ = true;
        }
        side.is_stopping = false;
        thread_.start(1, &run, side_, buffer_size_);
        side.is_running = true;  // which it sees when it has the lock
    }

    static void run(const std::shared_ptr<Side>& side, uint64_t buffer_size) {
        const Progress until_stopped(
            [](void* ctx, uint64_t, uint64_t) {
                return int32_t{static_cast<Side*>(ctx)->is_stopping};
            },
            side.get());
        const CurrentProgress current(&until_stopped);
        while (read_block(*side, buffer_size)) continue;
    }

    /// Reads a block; false when the thread is to end.
    static bool read_block(Side& side, uint64_t buffer_size) {
        const uint64_t usual = std::clamp<uint64_t>(buffer_size / 4, 1, 1024);
        std::list<Block> made;
        std::exception_ptr failure;
        bool is_last = false;
        try {
            Block& block = made.emplace_back();
            side.mark.move_to(*side.source);
            block.mark = side.mark;
            block.records.reserve(usual);
            const int64_t begun = coarse_milliseconds();
            while (block.records.size() < usual && !side.is_stopping && !is_last) {
                const std::size_t count =
                    side.source->append(block.records, usual - block.records.size());
                is_last = count == 0;
                side.mark.taken += count;
                // A source that is slow need not fill a block while somebody waits.
                if (side.is_hungry.load(std::memory_order_relaxed) &&
                    coarse_milliseconds() - begun > 2)
                    break;
            }
        } catch (const ThreadEnd&) {
            throw;
        } catch (...) {
            failure = std::current_exception();
        }
        side.skipped.store(side.source->skipped(), std::memory_order_relaxed);

        std::unique_lock lock(side.mutex);
        if (!made.empty() && !made.front().records.empty()) {
            side.waiting += made.front().records.size();
            side.blocks.splice(side.blocks.end(), made);
        }
        side.is_last = is_last;
        side.is_running = !is_last && !failure;
        // one that was told to stop goes on from there
        if (!side.is_stopping) side.failure = std::move(failure);
        side.changed.notify_all();
        if (!side.is_running) return false;
        side.changed.wait(lock, [&] {
            return side.is_stopping || side.waiting == 0 || side.waiting + usual <= buffer_size;
        });
        side.is_running = !side.is_stopping;
        if (!side.is_running) side.changed.notify_all();
        return side.is_running;
    }

    const uint64_t buffer_size_;
    std::shared_ptr<Side> side_;
    Threads thread_;
    Block block_;             ///< that is being given
    std::size_t given_ = 0;   ///< of its records
    bool has_begun_ = false;  ///< its mark holds
    bool is_astray_ = false;  ///< the source is not yet at the thread's mark, after a fork
    uint64_t forks_ = count_forks();
};

/// The thread that takes the records takes them from the source too, in tasks; others map them.
class ParallelMap : public SourceStage {
public:
    ParallelMap(sab_map_fn map, Context context, ObjectsPtr objects, uint64_t threads)
        : threads_wanted_(threads),
          side_(std::make_shared<Side>(map, std::move(context), std::move(objects))) {}
    ~ParallelMap() override {
        if (threads_.count() == 0) return;
        if (forks_ != forks_now()) {
            threads_.forget();
        } else {
            {
                const std::scoped_lock lock(side_->mutex);
                side_->is_stopping = true;
            }
            side_->work.notify_all();
            threads_.end(are_threads_left() || threads_.is_one_of_them());
        }
    }
    void attach(StreamPtr source) noexcept override {
        SourceStage::attach(std::move(source));
        side_->context->own();
    }

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
                    record = side_->mapped(task.in[given_], copier_);
                    ++given_;
                    return true;
                }
                if (task.source_failure)
                    std::rethrow_exception(std::exchange(task.source_failure, nullptr));
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
        check_fork();
        source_->rewind();
        forget();
    }
    void save(StateWriter& state) const override {
        if (task_ != nullptr) return task_->mark.save(state, given_);
        if (!tasks_.empty()) return tasks_.front()->mark.save(state, 0);
        Mark::save_of(*source_, state);
    }
    void restore(StateReader& state) override {
        check_fork();
        forget();
        mark_.restore(state, *source_);
    }
    void describe(Description& description) const override {
        const Description::Replayed replayed(description);
        source_->describe(description);
        description.add("parallel map");
    }
    StreamPtr fresh() const override {
        return make_stage<ParallelMap>(source_->fresh(), side_->map, side_->context, side_->objects,
                                       threads_wanted_);
    }
    void add_objects(ObjectKinds& kinds) const override {
        if (side_->objects != nullptr) kinds.push_back(side_->objects);
        SourceStage::add_objects(kinds);
    }

private:
    static constexpr std::size_t usual = 64;  ///< records of a task

    struct Task {
        Mark mark;  ///< of the source, before the first
        std::vector<Record> in, out;
        std::exception_ptr failure, source_failure;
        bool is_last = false;
        bool is_done = false;                 ///< under the lock
        std::atomic<bool> is_dropped{false};  ///< its records are not needed any more
    };
    using Tasks = std::list<std::shared_ptr<Task>>;  ///< moved from list to list, which cannot fail

    /// What the threads share with the stage.
    struct Side {
        Side(sab_map_fn map_fn, Context caller, ObjectsPtr functions)
            : map(map_fn), context(std::move(caller)), objects(std::move(functions)) {}

        Record mapped(const Record& record, Copier& copier) const {
            copier.reserve_object();
            sab_record made = record.view;
            call_back("map", [&] { return map(context->get(), &record.view, &made); });
            // of a copy: after a fork it is mapped again
            return taken("map: made", made, Record(record), objects, copier);
        }

        const sab_map_fn map;
        const Context context;
        const ObjectsPtr objects;
        std::mutex mutex;
        std::condition_variable changed, work;
        Tasks waiting;
        std::atomic<bool> is_stopping{false};
    };

    // registered by the constructor: does not fail
    static uint64_t forks_now() noexcept { return count_forks(); }

    /// Keeps the threads busy: two tasks for each.
    void fill() {
        threads_.start_all(threads_wanted_, &run, side_);
        while (tasks_.size() < 2 * threads_wanted_ + 1) {
            if (!tasks_.empty() && (tasks_.back()->is_last || tasks_.back()->source_failure)) break;
            // The task and its places come first, so that no record that was taken is lost.
            Tasks here(1, std::make_shared<Task>()), there(here);
            Task& task = *here.front();
            task.in.reserve(usual);
            mark_.move_to(*source_);
            task.mark = mark_;
            try {
                while (task.in.size() < usual && !task.is_last) {
                    task.is_last = !pull(*source_, task.in);
                    mark_.taken += !task.is_last;
                }
            } catch (const ThreadEnd&) {
                throw;
            } catch (...) {
                task.source_failure = std::current_exception();
            }
            const std::scoped_lock lock(side_->mutex);
            tasks_.splice(tasks_.end(), here);
            side_->waiting.splice(side_->waiting.end(), there);
            side_->work.notify_one();
        }
    }

    static void run(std::shared_ptr<Side> side) {
        Copier copier;
        std::unique_lock lock(side->mutex);
        for (;;) {
            side->work.wait(lock, [&] { return side->is_stopping || !side->waiting.empty(); });
            if (side->is_stopping) return;
            const std::shared_ptr<Task> task = std::move(side->waiting.front());
            side->waiting.pop_front();
            lock.unlock();
            try {
                task->out.reserve(task->in.size());
                for (const Record& record : task->in) {
                    if (side->is_stopping || task->is_dropped) break;
                    task->out.push_back(side->mapped(record, copier));
                }
            } catch (const ThreadEnd&) {
                throw;
            } catch (...) {
                task->failure = std::current_exception();
            }
            lock.lock();
            task->is_done = true;
            side->changed.notify_all();
        }
    }

    /// In the child of a fork: the tasks again, for other threads. Those that were there may have
    /// been in the middle of them.
    void check_fork() {
        const uint64_t now = count_forks();
        if (forks_ != now && threads_.count() > 0) {
            auto side = std::make_shared<Side>(side_->map, side_->context, side_->objects);
            Tasks tasks;
            for (const auto& old : tasks_) {
                auto task = std::make_shared<Task>();
                task->mark = old->mark;
                task->in = old->in;
                task->source_failure = old->source_failure;
                task->is_last = old->is_last;
                tasks.push_back(std::move(task));
            }
            side->waiting = tasks;
            threads_.forget();
            side_ = std::move(side);
            tasks_.swap(tasks);
        }
        forks_ = now;
    }

    /// Drops all tasks. A thread that maps a record of one finishes that record.
    void forget() noexcept override {
        Tasks gone;  // freed without the lock, since records release what is the caller's
        {
            const std::scoped_lock lock(side_->mutex);
            gone.swap(side_->waiting);
        }
        for (const auto& task : tasks_) task->is_dropped = true;
        task_ = nullptr;
        tasks_.clear();
        given_ = 0;
        mark_ = {};
    }

    uint64_t threads_wanted_;
    Copier copier_;
    std::shared_ptr<Side> side_;
    Threads threads_;
    Tasks tasks_;                 ///< in order, from the next one on
    std::shared_ptr<Task> task_;  ///< that is being given
    std::size_t given_ = 0;
    Mark mark_;
    uint64_t forks_ = count_forks();
};

}  // namespace

StagePtr make_prefetch(uint64_t buffer_size) {
    check(buffer_size >= 1 && buffer_size <= most_records, "buffer_size", buffer_size,
          "must be from 1 to 2^32");
    return std::make_unique<Prefetch>(buffer_size);
}

StagePtr make_parallel_map(const sab_map_stream_options& options) {
    return std::make_unique<ParallelMap>(options.map, context_of(options.ctx, options.release),
                                         objects_of(options.objects), options.threads);
}

}  // namespace sab
