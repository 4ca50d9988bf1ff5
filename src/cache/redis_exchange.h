#pragma once
/// Requests to Redis servers and their answers, at several servers at once, bounded in bytes and in
/// time whatever the servers do.

#include <algorithm>
#include <array>
#include <atomic>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/outage.h"
#include "cache/redis_reply.h"
#include "cache/url.h"

struct addrinfo;

namespace sab::cache {

/// When a call must be over.
struct Deadline {
    explicit Deadline(double count)
        : seconds(count),
          end(Clock::now() +
              std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count))) {}
    bool is_over() const { return Clock::now() >= end; }
    double seconds;
    Clock::time_point end;
};

constexpr ReplyBounds a_line{std::size_t{1} << 17, 0, std::size_t{1} << 17};

/// Words that others keep.
class Command {
public:
    Command(std::initializer_list<std::string_view> words, std::vector<std::string_view> more = {},
            ReplyBounds largest_answer = a_line);
    void append_to(std::string& out) const;
    const ReplyBounds& bounds() const { return bounds_; }

private:
    std::array<std::string_view, 6> words_;
    std::size_t count_;
    std::vector<std::string_view> more_;
    ReplyBounds bounds_;
};

/// A socket and what has come out of it so far.
class Connection {
public:
    Connection() = default;
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    /// False when there is no socket: errno says why.
    bool open(int family, int protocol);
    int socket() const { return socket_; }
    ReplyReader& reader() { return reader_; }
    /// Whether the server neither closed it nor said what it was not asked.
    bool is_idle() const;

private:
    int socket_ = -1;
    ReplyReader reader_;
};

/// How to come in.
struct RedisLogin {
    std::string user, password;
    uint32_t database = 0;
    Clock::duration timeout{};
};

/// A server, and connections to it that are kept.
class RedisServer {
public:
    RedisServer(std::string host, uint16_t port, RedisLogin login);
    const std::string host;
    const uint16_t port;
    const std::string name;  // for messages
    const RedisLogin login;
    Outage reach, writes;                   // it may answer, but refuse to be written to
    std::atomic<bool> has_many_keys{true};  // whether this user may name many keys in one command

    std::unique_ptr<Connection> take();
    void put_back(std::unique_ptr<Connection> connection);
    void close_idle();
    /// An error of the server's for a message: one line, not too long, without the password, which
    /// some servers repeat.
    std::string readable(std::string_view error) const;

private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Connection>> idle_;
};

/// Commands for one server, in order, and what it answered. All are such that they may be sent
/// twice.
class Exchange {
public:
    Exchange(RedisServer& server, std::vector<Command> commands);
    Exchange(Exchange&&) noexcept;
    ~Exchange();
    RedisServer& server() const { return *server_; }

    /// Carries all out at once, each at its own server. A server has its timeout to connect, for
    /// each answer, and for each 64 KiB of a long one, and all of them until the deadline.
    static void run(std::span<Exchange> all, const Deadline& deadline);

    std::vector<Reply> replies;  // to as many commands as were answered
    std::string failure;         // why there are not more

private:
    enum Phase { connecting, greeting, talking, over };
    void begin(const Deadline& call);
    void resolve();
    void connect();
    void connected();
    void talk();
    void send();
    void receive();
    void keep(Reply reply);
    bool has_to_send() const {
        return sent_ < out_.size() || (phase_ == talking && next_ < commands_.size());
    }
    void proceed(short events);
    void late();
    void read(std::string_view bytes);
    void renew() {
        until_ = std::min(Clock::now() + server_->login.timeout, call_->end), moved_ = 0;
    }
    void progress(std::size_t bytes);
    void broken(const std::string& why);
    void fail(const std::string& why);

    RedisServer* server_;
    std::vector<Command> commands_;
    Phase phase_ = over;
    std::unique_ptr<Connection> connection_;
    bool is_kept_ = false;  // the connection is one that was there already
    struct FreeAddresses {
        void operator()(addrinfo* list) const;
    };
    std::unique_ptr<addrinfo, FreeAddresses> addresses_;
    const addrinfo* address_ = nullptr;
    std::unique_ptr<char[]> received_;
    std::string out_;
    std::size_t sent_ = 0, next_ = 0, greetings_ = 0, moved_ = 0;
    const Deadline* call_ = nullptr;
    Clock::time_point until_;  // for the next step
};

}  // namespace sab::cache
