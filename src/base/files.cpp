#include "base/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace sab {

namespace {

/// Does not wait for the writer of a pipe.
int open_to_read(const char* path) {
    return ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

std::string_view kind_of(mode_t mode) {
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISDIR(mode)) return "a directory";
    return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "a socket";
}

/// The numbers are those that read() and mmap() give.
[[noreturn]] void refuse_kind(std::string_view what, std::string_view file, mode_t mode,
                              std::string_view advice = "") {
    fail_io(S_ISDIR(mode) ? EISDIR : ENODEV, what, file,
            text("is ", kind_of(mode), ", must be a regular file", advice));
}

}  // namespace

std::shared_ptr<const std::span<const std::byte>> map_file(const char* path) {
    const auto refuse = [&](const char* what) { fail_io(errno, what, path); };
    const int file = open_to_read(path);
    if (file < 0) refuse("cannot open");
    struct Closer {
        int file;
        ~Closer() { ::close(file); }
    } closer{file};
    struct stat facts{};
    if (::fstat(file, &facts) != 0) refuse("cannot read");
    if (!S_ISREG(facts.st_mode)) refuse_kind("cannot map", path, facts.st_mode);
    const auto length = static_cast<std::size_t>(facts.st_size);
    if (length == 0) return std::make_shared<const std::span<const std::byte>>();
    void* start = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, file, 0);
    if (start == MAP_FAILED) refuse("cannot map");
    const auto unmap = [](const std::span<const std::byte>* bytes) {
        ::munmap(const_cast<std::byte*>(bytes->data()), bytes->size());
        delete bytes;
    };
    try {
        auto* bytes = new std::span<const std::byte>(static_cast<const std::byte*>(start), length);
        return {bytes, unmap};
    } catch (...) {
        ::munmap(start, length);
        throw;
    }
}

void read_ahead(std::span<const std::byte> part) noexcept {
    static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto start = reinterpret_cast<uintptr_t>(part.data());
    const uintptr_t before = start % page;
    ::madvise(const_cast<std::byte*>(part.data()) - before, before + part.size(), MADV_WILLNEED);
}

void replace_file(const char* path, std::span<const std::span<const std::byte>> parts) {
    // A neighbour of the file takes its place when it is whole and on the disk. The name differs
    // between processes and threads.
    static std::atomic<uint32_t> counter{0};
    std::string scratch;
    const auto refuse = [&](const char* what) {
        const int error = errno;
        ::unlink(scratch.c_str());
        fail_io(error, what, path);
    };
    int file = -1;
    do {  // a process of this number that was killed may have left one
        scratch = text(path, ".", ::getpid(), ".", counter.fetch_add(1), ".part");
        file = ::open(scratch.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    } while (file < 0 && errno == EEXIST);
    if (file < 0) fail_io(errno, "cannot write", path);
    for (std::span<const std::byte> part : parts)
        while (!part.empty()) {
            const ssize_t written = ::write(file, part.data(), part.size());
            if (written < 0 && errno == EINTR) continue;
            if (written < 0) {
                const int error = errno;
                ::close(file);
                errno = error;
                refuse("cannot write");
            }
            part = part.subspan(static_cast<std::size_t>(written));
        }
    const bool synced = ::fsync(file) == 0;
    if (::close(file) != 0 || !synced) refuse("cannot write");
    if (::rename(scratch.c_str(), path) != 0) refuse("cannot write");
}

OpenFile::OpenFile(const std::string& name, std::string_view advice)
    : name_(name), file_(open_to_read(name.c_str())) {
    if (name.find('\0') != name.npos) errno = ENOENT;
    struct stat facts{};
    if (file_ < 0 || name.find('\0') != name.npos || ::fstat(file_, &facts) != 0) {
        const int number = errno;
        if (file_ >= 0) ::close(file_);
        fail_io(number, "cannot open file", name);
    }
    if (!S_ISREG(facts.st_mode)) {
        ::close(file_);
        refuse_kind("cannot open file", name, facts.st_mode, advice);
    }
    size_ = static_cast<uint64_t>(facts.st_size);
#ifdef __APPLE__
    const timespec& time = facts.st_mtimespec;
#else
    const timespec& time = facts.st_mtim;
#endif
    modified_ =
        static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

OpenFile::~OpenFile() {
    ::close(file_);
}

std::size_t OpenFile::read(uint64_t offset, char* to, std::size_t room) const {
    for (;;) {
        const ssize_t count = ::pread(file_, to, room, static_cast<off_t>(offset));
        if (count >= 0) return static_cast<std::size_t>(count);
        if (errno != EINTR) fail_io(errno, text("cannot read byte ", offset, " of file"), name_);
    }
}

std::optional<std::size_t> read_standard_input(char* to, std::size_t room) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    // a signal ends the wait, too; other failures come again in read()
    if (const int ready = ::poll(&input, 1, 100); ready == 0 || (ready < 0 && errno == EINTR))
        return std::nullopt;
    const ssize_t count = ::read(STDIN_FILENO, to, room);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) fail_io(errno, "cannot read", "standard input");
    return std::nullopt;
}

StandardStreams::StandardStreams() noexcept {
    while (true) {
        const int file = ::open("/dev/null", O_RDWR | O_CLOEXEC);
        if (file < 0) return;
        if (file > 2) {
            ::close(file);
            return;
        }
        is_taken_[file] = true;
    }
}

StandardStreams::~StandardStreams() {
    for (int file = 0; file < 3; ++file)
        if (is_taken_[file]) ::close(file);
}

}  // namespace sab
