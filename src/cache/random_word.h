#pragma once
#include <random>
#include <string>

namespace sab::cache {

/// 32 hexadecimal digits that nobody can guess.
inline std::string random_word() {
    std::random_device random;
    std::string word;
    for (int i = 0; i < 32; ++i) word += "0123456789abcdef"[random() & 15u];
    return word;
}

}  // namespace sab::cache
