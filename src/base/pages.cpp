#include "base/pages.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace sab {
namespace {

constexpr std::align_val_t huge_page{std::size_t{2} << 20};

}  // namespace

void* allocate_huge(std::size_t bytes) {
    if (bytes < huge_memory_from) return ::operator new(bytes);
    void* const memory = ::operator new(bytes, huge_page);
#ifdef __linux__
    ::madvise(memory, bytes, MADV_HUGEPAGE);  // fails on a system without huge pages
#endif
    return memory;
}

void free_huge(void* memory, std::size_t bytes) noexcept {
    if (bytes < huge_memory_from)
        ::operator delete(memory);
    else
        ::operator delete(memory, huge_page);
}

}  // namespace sab
