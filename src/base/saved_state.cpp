#include "base/saved_state.h"

#include <cstring>

namespace sab {

void check_state_begin(std::span<const std::byte> state, std::string_view letters,
                       const char* whose, uint32_t version) {
    uint32_t saved = 0;
    if (state.size() < letters.size() + sizeof saved ||
        std::memcmp(state.data(), letters.data(), letters.size()) != 0)
        refuse_state("is not the state of ", whose, ": must begin with \"", letters, "\"");
    std::memcpy(&saved, state.data() + letters.size(), sizeof saved);
    if (saved == __builtin_bswap32(version))
        refuse_state("was written by a machine of another byte order");
    if (saved != version) refuse_state("has version ", saved, ", this library reads ", version);
}

void check_state_size(std::size_t size, uint64_t expected) {
    if (size != expected) refuse_state("has ", size, " bytes, must have ", expected);
}

void check_state_checksum(uint64_t saved, uint64_t computed) {
    if (saved != computed) refuse_state("its checksum does not match: it is damaged");
}

}  // namespace sab
