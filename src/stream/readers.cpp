#include "stream/readers.h"

#include <atomic>

#include "base/callback.h"

namespace sab {
namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 25;  // of chunks, for each thread
constexpr std::size_t few = 4;  // chunks that the file the stage is at may always have

}  // namespace

struct Readers::Side {
    sab_files_stream_options options;
    sab_text_unit unit;
    std::mutex mutex;
    std::condition_variable changed, work, room;
    Readings waiting;                ///< in their order
    const Reading* first = nullptr;  ///< that the stage is at
    std::size_t held = 0;            ///< bytes of chunks
    std::atomic<bool> is_stopping{false};
};

void Reading::open(const sab_files_stream_options& options, sab_text_unit unit) {
    if (file_ != nullptr) return;
    if (name.view.kind != SAB_RECORD_BYTES)
        refuse_argument("source", no_value, "gave a record of kind ", name.view.kind,
                        " where the name of a file must be");
    auto file = std::make_unique<File>(std::string(name.bytes()), before ? &*before : nullptr,
                                       options, unit);
    if (start > 0) file->seek(start);
    file_ = std::move(file);
}

bool Reading::read(FileChunk& chunk, const sab_files_stream_options& options, sab_text_unit unit) {
    open(options, unit);
    if (file_->next(chunk)) return true;
    known = file_->known();
    file_ = nullptr;
    return false;
}

Readers::Readers(const sab_files_stream_options& options, sab_text_unit unit)
    : side_(std::make_shared<Side>()) {
    side_->options = options;
    side_->unit = unit;
}

Readers::~Readers() {
    if (threads_.count() == 0) return;
    if (are_gone()) {
        threads_.forget();
        return;
    }
    {
        const std::scoped_lock lock(side_->mutex);
        side_->is_stopping = true;
    }
    side_->work.notify_all();
    side_->room.notify_all();
    threads_.end(are_threads_left() || threads_.is_one_of_them());
}

void Readers::start(std::size_t files) {
    threads_.start_all(std::min<std::size_t>(files, side_->options.readers), &run, side_);
}

void Readers::add(const std::shared_ptr<Reading>& reading) noexcept {
    const std::scoped_lock lock(side_->mutex);
    reading->place.front() = reading;
    side_->waiting.splice(side_->waiting.end(), reading->place);
    side_->work.notify_one();
}

const FileChunk* Readers::wait_for(Reading& reading) {
    std::unique_lock lock(side_->mutex);
    if (std::exchange(side_->first, &reading) != &reading) side_->room.notify_all();
    wait(lock, side_->changed,
         [&] { return !reading.chunks.empty() || reading.is_over || reading.failure; });
    if (!reading.chunks.empty()) return &reading.chunks.front();
    if (reading.is_over) return nullptr;
    reading.is_apart = true;
    std::rethrow_exception(std::exchange(reading.failure, nullptr));
}

void Readers::take(Reading& reading, std::list<FileChunk>& into) noexcept {
    const std::scoped_lock lock(side_->mutex);
    side_->held -= reading.chunks.front().bytes();
    into.splice(into.end(), reading.chunks, reading.chunks.begin());
    side_->room.notify_all();
}

bool Readers::is_over(const Reading& reading) {
    const std::scoped_lock lock(side_->mutex);
    return reading.is_over;
}

void Readers::drop(const Readings& all) noexcept {
    Readings gone;  // freed without the lock, since records release what is the caller's
    {
        const std::scoped_lock lock(side_->mutex);
        gone.swap(side_->waiting);
        for (const auto& reading : all) reading->is_dropped = true;
        side_->held = 0;
        side_->first = nullptr;
    }
    side_->room.notify_all();
}

void Readers::run(const std::shared_ptr<Side>& side) {
    std::unique_lock lock(side->mutex);
    for (;;) {
        side->work.wait(lock, [&] { return side->is_stopping || !side->waiting.empty(); });
        if (side->is_stopping) return;
        Readings one;
        one.splice(one.begin(), side->waiting, side->waiting.begin());
        read(*side, *one.front(), lock);
        lock.unlock();
        one.clear();
        lock.lock();
    }
}

/// Reads a file to its end, or to a failure, unless it is dropped. The lock is held at its begin
/// and at its end.
void Readers::read(Side& side, Reading& reading, std::unique_lock<std::mutex>& lock) {
    const Progress until_stopped(
        [](void* ctx, uint64_t, uint64_t) { return int32_t{static_cast<Side*>(ctx)->is_stopping}; },
        &side);
    const CurrentProgress current(&until_stopped);
    const auto is_over = [&] { return side.is_stopping || reading.is_dropped; };
    while (!is_over()) {
        lock.unlock();
        std::list<FileChunk> made;
        std::exception_ptr failure;
        bool is_read = false;
        try {
            is_read = reading.read(made.emplace_back(), side.options, side.unit);
            if (!is_read) made.clear();
        } catch (const ThreadEnd&) {
            throw;
        } catch (...) {
            failure = std::current_exception();
            made.clear();
        }
        const std::size_t bytes = is_read ? made.front().bytes() : 0;
        lock.lock();
        if (is_over()) {
            lock.unlock();
            made.clear();
            lock.lock();
            return;
        }
        side.held += bytes;
        reading.chunks.splice(reading.chunks.end(), made);
        reading.failure = failure;
        reading.is_over = !is_read && !failure;
        side.changed.notify_all();
        if (!is_read) return;
        side.room.wait(lock, [&] {
            return is_over() || side.held < most_bytes * side.options.readers ||
                   (side.first == &reading && reading.chunks.size() < few);
        });
    }
}

}  // namespace sab
