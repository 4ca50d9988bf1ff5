#pragma once
/// SAB_VECTOR_CLONES before a function compiles it once for any x86-64 and once for AVX2, chosen
/// when the library is loaded. For whole-number loops only, whose results are the same whatever the
/// vectors. Sanitizers cannot run the chooser.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__gnu_linux__)
#define SAB_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define SAB_VECTOR_CLONES
#endif
