#include "base/files.h"

#define NOMINMAX 1
#define WIN32_LEAN_AND_MEAN
#include <fcntl.h>
#include <io.h>
#include <sys/stat.h>
#include <windows.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace sab {
namespace {

constexpr std::size_t most_at_once = 1 << 30;

std::wstring wide(std::string_view name) {
    const auto length = static_cast<int>(name.size());
    std::wstring units(name.size(), L'\0');
    units.resize(static_cast<std::size_t>(
        MultiByteToWideChar(CP_UTF8, 0, name.data(), length, units.data(), length)));
    return units;
}

}  // namespace

std::shared_ptr<const std::span<const std::byte>> map_file(const char* path) {
    struct _stat64 facts{};
    if (_wstat64(wide(path).c_str(), &facts) == 0 && (facts.st_mode & _S_IFREG) == 0)
        fail_io(0, "cannot map", path, "must be a regular file");
    const OpenFile file(path);
    struct Copy {  // what is mapped could not be replaced
        std::vector<std::byte> bytes;
        std::span<const std::byte> view;
    };
    const auto copy = std::make_shared<Copy>();
    copy->bytes.resize(file.size());
    std::size_t length = 0;
    while (const std::size_t count =
               file.read(length, reinterpret_cast<char*>(copy->bytes.data()) + length,
                         copy->bytes.size() - length))
        length += count;
    copy->view = {copy->bytes.data(), length};
    return {copy, &copy->view};
}

void read_ahead(std::span<const std::byte> /*part*/) noexcept {}

void replace_file(const char* path, std::span<const std::span<const std::byte>> parts) {
    static std::atomic<uint32_t> counter{0};
    std::string scratch;
    int file = -1;
    do {
        scratch = text(path, ".", GetCurrentProcessId(), ".", counter.fetch_add(1), ".part");
        file =
            _wopen(wide(scratch).c_str(), _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT,
                   _S_IREAD | _S_IWRITE);
    } while (file < 0 && errno == EEXIST);
    if (file < 0) fail_io(errno, "cannot write", path);
    std::string failure;
    int32_t number = 0;  // of failures that have an errno
    const auto note = [&] {
        number = errno;
        failure = std::strerror(number);
    };
    for (std::span<const std::byte> part : parts)
        while (failure.empty() && !part.empty()) {
            const int written = _write(file, part.data(),
                                       static_cast<unsigned>(std::min(part.size(), most_at_once)));
            if (written < 0)
                note();
            else
                part = part.subspan(static_cast<std::size_t>(written));
        }
    if (failure.empty() && _commit(file) != 0) note();
    _close(file);
    if (failure.empty() && MoveFileExW(wide(scratch).c_str(), wide(path).c_str(),
                                       MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) == 0)
        failure = std::system_category().message(static_cast<int>(GetLastError()));
    if (failure.empty()) return;
    _wunlink(wide(scratch).c_str());
    fail_io(number, "cannot write", path, failure);
}

OpenFile::OpenFile(const std::string& name, std::string_view) : name_(name), file_(-1) {
    errno = ENOENT;
    if (name.find('\0') == name.npos)
        file_ = _wopen(wide(name).c_str(), _O_RDONLY | _O_BINARY | _O_NOINHERIT);
    if (file_ < 0) fail_io(errno, "cannot open file", name);
    size_ = static_cast<uint64_t>(_filelengthi64(file_));
    struct _stat64 facts{};
    if (_fstat64(file_, &facts) == 0)
        modified_ = static_cast<uint64_t>(facts.st_mtime) * 1'000'000'000;
}

OpenFile::~OpenFile() {
    _close(file_);
}

std::size_t OpenFile::read(uint64_t offset, char* to, std::size_t room) const {
    const bool is_there = _lseeki64(file_, static_cast<int64_t>(offset), SEEK_SET) >= 0;
    const int count =
        is_there ? _read(file_, to, static_cast<unsigned>(std::min(room, most_at_once))) : -1;
    if (count < 0) fail_io(errno, text("cannot read byte ", offset, " of file"), name_);
    return static_cast<std::size_t>(count);
}

std::optional<std::size_t> read_standard_input(char* to, std::size_t room) {
    constexpr int standard_input = 0;
    _setmode(standard_input, _O_BINARY);
    const int count =
        _read(standard_input, to, static_cast<unsigned>(std::min(room, most_at_once)));
    if (count < 0) fail_io(errno, "cannot read", "standard input");
    return static_cast<std::size_t>(count);
}

}  // namespace sab
