#pragma once
/// SAB_VECTOR_CLONES before a function compiles it once for any x86-64 and once for AVX2, chosen
/// when the library is loaded. For whole-number loops only, whose results are the same whatever the
/// vectors. Sanitizers cannot run the chooser. Code that is compiled for size has none of these.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                           \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__gnu_linux__) && \
    !defined(__OPTIMIZE_SIZE__)
#define SAB_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define SAB_VECTOR_CLONES
#endif

/// SAB_AVX512 before a function compiles it for AVX-512 with VBMI2, which has vectors of 64 bytes
/// and moves the values that a mask chooses. Defined where has_avx512() says whether the processor
/// has them. Only with glibc: MinGW does not align vectors of 64 bytes on the stack, and zig does
/// not know the processor when the program runs.
#include <cstddef>
#if defined(__x86_64__) && defined(__GNUC__) && defined(__GLIBC__) && !defined(__OPTIMIZE_SIZE__)
#include <immintrin.h>

#define SAB_AVX512 __attribute__((target("avx512f,avx512bw,avx512vbmi2,popcnt")))

namespace sab {

inline bool has_avx512() {
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi2");
}

}  // namespace sab
#endif
