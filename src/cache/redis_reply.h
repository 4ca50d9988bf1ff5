#pragma once
/// Answers of Redis servers (RESP2), read as they come in. A server may send anything, so each
/// answer is bounded, and memory grows only with the bytes that have come.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sab::cache {

struct Reply {
    enum Kind { nothing, string, status, error, integer, array } kind = nothing;
    std::string text{};  // of a string, status or error
    int64_t number = 0;
    std::vector<Reply> elements{};
};

/// The largest answer to a command.
struct ReplyBounds {
    std::size_t bytes;     // in all, with those of the protocol
    std::size_t elements;  // of all its arrays together
    std::size_t string;    // of one string
};

class ReplyReader {
public:
    enum Result { more, whole, wrong };
    /// Reads one answer from the front of `bytes`, and removes what it has read. `wrong`: the bytes
    /// break the protocol or the bounds; the reader cannot be used again.
    Result read(std::string_view& bytes, const ReplyBounds& bounds);
    /// The answer, after `whole`.
    Reply take();

private:
    struct Open {
        Reply reply;
        std::size_t left;  // elements to come
    };
    Result read_line(std::string_view& bytes, const ReplyBounds& bounds);
    Result read_string(std::string_view& bytes);
    Result begin(std::string_view line, const ReplyBounds& bounds);
    Result begin_array(std::size_t size, const ReplyBounds& bounds);
    Result add(Reply reply);

    std::string line_;
    std::string string_;
    // bytes of the string to come, with its line end; 0: a line comes next
    std::size_t string_left_ = 0;
    std::vector<Open> open_;  // arrays, each within the one before it
    Reply done_;
    std::size_t used_ = 0, elements_ = 0;  // by the answer so far
};

}  // namespace sab::cache
