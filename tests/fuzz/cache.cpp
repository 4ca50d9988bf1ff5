/// Bytes as the frame of a cached value, as a cache's URL, and as answers of a Redis server.
#include <memory>
#include <string>

#include "base/error.h"
#include "cache/cache.h"
#include "cache/redis_reply.h"
#include "cache/url.h"
#include "fuzz.h"

namespace {

/// A copy that ends where its memory does.
struct Exact {
    explicit Exact(std::string_view bytes)
        : memory(new char[bytes.size()]), view(memory.get(), bytes.size()) {
        std::memcpy(memory.get(), bytes.data(), bytes.size());
    }
    std::unique_ptr<char[]> memory;
    std::string_view view;
};

void frame(std::string_view key, std::string_view bytes, uint64_t which) {
    const Exact raw(bytes);
    // only what was framed
    if (const auto value = sab::cache::unframed(key, raw.view))
        PROMISE(sab::cache::framed(key, *value) == bytes);
    std::string made = sab::cache::framed(key, bytes);
    const Exact whole(made);
    const auto value = sab::cache::unframed(key, whole.view);
    PROMISE(value && *value == bytes &&
            value->data() == whole.view.data() + sab::cache::frame_header_size);
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
    PROMISE(again.kind == Url::redis && again.servers.hosts == parsed.servers.hosts &&
            again.servers.database == parsed.servers.database);
    PROMISE(again.servers.url() == written);
}

std::size_t elements_of(const sab::cache::Reply& reply) {
    std::size_t count = reply.elements.size();
    for (const sab::cache::Reply& each : reply.elements) count += elements_of(each);
    return count;
}

/// The bytes as the protocol writes them.
std::string written(const sab::cache::Reply& reply) {
    using sab::cache::Reply;
    switch (reply.kind) {
        case Reply::nothing: return "$-1\r\n";
        case Reply::string:
            return "$" + std::to_string(reply.text.size()) + "\r\n" + reply.text + "\r\n";
        case Reply::status: return "+" + reply.text + "\r\n";
        case Reply::error: return "-" + reply.text + "\r\n";
        case Reply::integer: return ":" + std::to_string(reply.number) + "\r\n";
        case Reply::array: break;
    }
    std::string all = "*" + std::to_string(reply.elements.size()) + "\r\n";
    for (const Reply& each : reply.elements) all += written(each);
    return all;
}

/// Answers are the same in one piece and in small ones, stay within their bounds, and are read back
/// as they were.
void answers(std::string_view bytes, uint64_t which) {
    using namespace sab::cache;
    const ReplyBounds bounds{1 + which % 4096, which / 4096 % 64, which / 4096 / 64 % 4096};
    ReplyReader whole, pieces;
    const std::size_t piece = 1 + which % 7;
    for (std::string_view rest = bytes; !rest.empty();) {
        const std::size_t before = rest.size();
        const ReplyReader::Result result = whole.read(rest, bounds);
        const std::string_view used = bytes.substr(bytes.size() - before, before - rest.size());
        ReplyReader::Result same = ReplyReader::more;
        for (std::size_t at = 0; at < used.size() && same == ReplyReader::more; at += piece) {
            const Exact part(used.substr(at, piece));
            std::string_view left = part.view;
            same = pieces.read(left, bounds);
        }
        PROMISE(result == ReplyReader::wrong || same == result);
        if (result != ReplyReader::whole) return;
        PROMISE(used.size() <= bounds.bytes);
        const Reply reply = whole.take();
        PROMISE(elements_of(reply) <= bounds.elements && written(pieces.take()) == written(reply));
        std::string again = written(reply);
        std::string_view left = again;
        ReplyReader reader;
        PROMISE(reader.read(left, {again.size(), bounds.elements, bounds.string}) ==
                    ReplyReader::whole &&
                left.empty() && written(reader.take()) == again);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    const auto which = input.take<uint64_t>();
    const auto kind = input.take<uint8_t>();
    const std::string_view rest(reinterpret_cast<const char*>(input.data()), input.left());
    if (kind % 3 == 2) {
        answers(rest, which);
    } else if (kind % 2 == 0) {
        const size_t key = rest.empty() ? 0 : which % (rest.size() + 1);
        frame(rest.substr(0, key), rest.substr(key), which);
    } else if (kind % 4 == 1) {
        url(rest);
    } else {
        url("redis://" + std::string(rest));
    }
    return 0;
}
