#include "base/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace sab {

std::shared_ptr<const std::span<const std::byte>> map_file(const char* path) {
    const auto refuse = [&](const char* what) { fail(SAB_E_IO, what, " \"", path, "\": ", std::strerror(errno)); };
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) refuse("cannot open");
    struct Closer {
        int file;
        ~Closer() { ::close(file); }
    } closer{file};
    struct stat facts {};
    if (::fstat(file, &facts) != 0) refuse("cannot read");
    if (!S_ISREG(facts.st_mode)) fail(SAB_E_IO, "cannot map \"", path, "\": must be a regular file");
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

}  // namespace sab
