#include "base/guard.h"

#include <cstring>
#include <new>
#include <stdexcept>

#include "base/callback.h"

namespace sab {
namespace {

thread_local LastError last{};

/// As much as there is room for, without a part of a UTF-8 character at the end.
template <std::size_t room>
void copy_text(char (&to)[room], const char* text) noexcept {
    std::size_t length = std::strlen(text);
    if (length > room - 1) {
        length = room - 1;
        while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
    }
    std::memcpy(to, text, length);
    to[length] = '\0';
}

}  // namespace

const LastError& last_error() noexcept {
    return last;
}

sab_status set_last_error(const Error& error) noexcept {
    copy_text(last.message, error.what());
    copy_text(last.argument, error.parts().argument.c_str());
    copy_text(last.value, error.parts().value.c_str());
    copy_text(last.rule, error.parts().rule.c_str());
    last.code = error.code();
    return error.status();
}

sab_status set_last_error(sab_status status, const char* message) noexcept {
    copy_text(last.message, message);
    last.argument[0] = last.value[0] = last.rule[0] = '\0';
    last.code = 0;
    return status;
}

sab_status set_caught_error() noexcept {
    try {
        throw;
    } catch (const ThreadEnd&) {
        sleep_until_exit();
    } catch (const Error& error) {
        return set_last_error(error);
    } catch (const std::bad_alloc&) {
        return set_last_error(SAB_E_NO_MEMORY, "memory could not be had");
    } catch (const std::length_error&) {
        return set_last_error(SAB_E_NO_MEMORY, "more memory is needed than there can be");
    } catch (const std::exception& error) {
        return set_last_error(SAB_E_INTERNAL, error.what());
    } catch (...) {
        return set_last_error(SAB_E_INTERNAL, "an unknown C++ exception");
    }
}

void refuse_struct_size(std::string_view name, std::size_t size,
                        std::initializer_list<TextPart> rule) {
    refuse_argument(text(name, ".struct_size"), size, joined(rule));
}

void refuse_small_struct(std::string_view name, std::size_t size, std::size_t least) {
    refuse_struct_size(
        name, size, {"must be at least ", least, " (set struct_size to the size of the struct)"});
}

}  // namespace sab
