/// Bytes as the frame of a cached value, and as a cache's URL.
#include <memory>
#include <string>

#include "base/error.h"
#include "cache/cache.h"
#include "cache/url.h"
#include "fuzz.h"

namespace {

/// A copy that ends where its memory does.
struct Exact {
    explicit Exact(std::string_view bytes) : memory(new char[bytes.size()]), view(memory.get(), bytes.size()) { std::memcpy(memory.get(), bytes.data(), bytes.size()); }
    std::unique_ptr<char[]> memory;
    std::string_view view;
};

void frame(std::string_view key, std::string_view bytes, uint64_t which) {
    const Exact raw(bytes);
    if (const auto value = sab::cache::unframed(key, raw.view)) PROMISE(sab::cache::framed(key, *value) == bytes);  // only what was framed
    std::string made = sab::cache::framed(key, bytes);
    const Exact whole(made);
    const auto value = sab::cache::unframed(key, whole.view);
    PROMISE(value && *value == bytes && value->data() == whole.view.data() + sab::cache::frame_header_size);
    PROMISE(!sab::cache::unframed(std::string(key) + "x", whole.view));
    const Exact part(std::string_view(made).substr(0, which % made.size()));
    PROMISE(!sab::cache::unframed(key, part.view));
    made[which / 8 % made.size()] ^= static_cast<char>(1 << which % 8);
    PROMISE(!sab::cache::unframed(key, made));
}

void url(std::string_view text) {
    using namespace sab::cache;
    Url parsed;
    try {
        parsed = parse_url(Exact(text).view);
    } catch (const sab::Error& error) {
        PROMISE(error.status() == SAB_E_ARGUMENT && error.what()[0] != 0);
        return;
    }
    if (parsed.kind != Url::redis) return;
    PROMISE(!parsed.servers.hosts.empty());
    const std::string written = parsed.servers.url();
    const Url again = parse_url(written);
    PROMISE(again.kind == Url::redis && again.servers.hosts == parsed.servers.hosts && again.servers.database == parsed.servers.database);
    PROMISE(again.servers.url() == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    const auto which = input.take<uint64_t>();
    const auto kind = input.take<uint8_t>();
    const std::string_view rest(reinterpret_cast<const char*>(input.data()), input.left());
    if (kind % 2 == 0) {
        const size_t key = rest.empty() ? 0 : which % (rest.size() + 1);
        frame(rest.substr(0, key), rest.substr(key), which);
    } else if (kind % 4 == 1) {
        url(rest);
    } else {
        url("redis://" + std::string(rest));
    }
    return 0;
}
