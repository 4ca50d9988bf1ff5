#pragma once
/// SAB_VECTOR_CLONES before a function compiles it once for any x86-64 and once each for AVX2 and AVX-512, chosen when the library is loaded.
/// For whole-number loops only, whose results are the same whatever the vectors. Sanitizers cannot run the chooser.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__gnu_linux__)
#define SAB_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define SAB_VECTOR_CLONES
#endif
