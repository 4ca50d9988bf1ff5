#pragma once
/// Threads that read several files at once.

#include <condition_variable>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "stream/file.h"
#include "stream/stream.h"
#include "stream/threads.h"

namespace sab {

/// A file that is being read, or is to be read. Chunks and files are moved from list to list, which
/// cannot fail.
class Reading {
public:
    // What the stage knows of it. Does not change while a thread reads the file.
    Mark mark;  ///< of the source, before its name
    Record name;
    uint64_t key = 0;             ///< a hash of the name
    std::optional<Known> before;  ///< of the file, when it was read before
    uint64_t start = 0;           ///< where it is begun
    bool is_begun = false;        ///< records of it were given

    /// Opens the file where it is not open.
    void open(const sab_files_stream_options& options, sab_text_unit unit);
    /// Makes a chunk; false at the end of the file, which is closed then.
    bool read(FileChunk& chunk, const sab_files_stream_options& options, sab_text_unit unit);

    std::list<std::shared_ptr<Reading>> place{1};  ///< for the list of the threads
    // What was read. While a thread reads the file: under its lock.
    std::list<FileChunk> chunks;
    std::exception_ptr failure;  ///< behind them
    bool is_over = false;        ///< the file ends behind them
    Known known{};               ///< of a file that is over
    bool is_apart = false;       ///< no thread reads it any more
    bool is_dropped = false;     ///< what is read is not needed

private:
    std::unique_ptr<File> file_;
};
using Readings = std::list<std::shared_ptr<Reading>>;

/// Threads that read files in their order, ahead of the stage that takes the chunks. Together they
/// hold at most so many bytes of chunks; of the file that the stage is at a few more.
class Readers {
public:
    Readers(const sab_files_stream_options& options, sab_text_unit unit);
    ~Readers();
    Readers(const Readers&) = delete;
    Readers& operator=(const Readers&) = delete;

    /// Starts threads for so many files.
    void start(std::size_t files);
    /// Has a file read.
    void add(const std::shared_ptr<Reading>& reading) noexcept;
    /// Waits for the first chunk of a file; NULL when the file is over. Throws its failure; the
    /// file is then apart.
    const FileChunk* wait_for(Reading& reading);
    /// Moves the first chunk.
    void take(Reading& reading, std::list<FileChunk>& into) noexcept;
    /// Whether a file is over, so that it is known how it was.
    bool is_over(const Reading& reading);
    /// Drops all. A thread that reads one of the files finishes a chunk of it.
    void drop(const Readings& all) noexcept;
    /// Whether this is the child of a fork, and threads of the parent are missing.
    // registered by the constructor: does not fail
    bool are_gone() const noexcept { return threads_.count() > 0 && forks_ != count_forks(); }

private:
    struct Side;  ///< what the threads share with this
    static void run(const std::shared_ptr<Side>& side);
    static void read(Side& side, Reading& reading, std::unique_lock<std::mutex>& lock);

    std::shared_ptr<Side> side_;
    Threads threads_;
    const uint64_t forks_ = count_forks();
};

}  // namespace sab
