#include "cache/redis_exchange.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <new>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "cache/descriptors.h"

namespace sab::cache {
namespace {

constexpr std::size_t piece = std::size_t{1} << 16;  // to be sent or received at a time
// received from a server before the others get their turn
constexpr std::size_t most_pieces = 16;

std::string reason(int code) {
    return std::system_category().message(code);
}

void append_word(std::string& out, std::string_view word) {
    std::array<char, 24> size{'$'};
    char* end = std::to_chars(size.data() + 1, size.data() + 22, word.size()).ptr;
    *end++ = '\r';
    *end++ = '\n';
    out.append(size.data(), end).append(word).append("\r\n", 2);
}

/// Loopback's ports can meet themselves where nobody listens.
bool is_connected_to_itself(int socket) {
    sockaddr_storage here{}, there{};
    socklen_t size_here = sizeof here, size_there = sizeof there;
    return getsockname(socket, reinterpret_cast<sockaddr*>(&here), &size_here) == 0 &&
           getpeername(socket, reinterpret_cast<sockaddr*>(&there), &size_there) == 0 &&
           size_here == size_there && std::memcmp(&here, &there, size_here) == 0;
}

}  // namespace

Command::Command(std::initializer_list<std::string_view> words, std::vector<std::string_view> more,
                 ReplyBounds largest_answer)
    : count_(words.size()), more_(std::move(more)), bounds_(largest_answer) {
    std::copy(words.begin(), words.end(), words_.begin());
}

void Command::append_to(std::string& out) const {
    const std::span<const std::string_view> parts[] = {{words_.data(), count_}, more_};
    std::size_t size = 32;
    for (const auto& part : parts)
        for (const std::string_view word : part) size += word.size() + 32;
    if (out.capacity() - out.size() < size)
        out.reserve(std::max(out.size() + size, 2 * out.capacity()));
    out += '*';
    TextPart(count_ + more_.size()).append_to(out);
    out += "\r\n";
    for (const auto& part : parts)
        for (const std::string_view word : part) append_word(out, word);
}

Connection::~Connection() {
    if (socket_ < 0) return;
    shutdown(socket_, SHUT_RDWR);  // a child may have it too
    close(socket_);
}

bool Connection::open(int family, int protocol) {
    socket_ = new_socket(family, protocol);
    return socket_ >= 0 && fcntl(socket_, F_SETFL, O_NONBLOCK) == 0;
}

bool Connection::is_idle() const {
    char byte = 0;
    return recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

RedisServer::RedisServer(std::string host_, uint16_t port_, RedisLogin login_)
    : host(std::move(host_)),
      port(port_),
      name(text("Redis ", host.find(':') == host.npos ? "" : "[", std::string_view(host),
                host.find(':') == host.npos ? "" : "]", ":", port)),
      login(std::move(login_)),
      reach(name),
      writes(name + ", writing") {}

std::unique_ptr<Connection> RedisServer::take() {
    const std::scoped_lock lock(mutex_);
    while (!idle_.empty()) {
        auto last = std::move(idle_.back());
        idle_.pop_back();
        if (last->is_idle()) return last;
    }
    return nullptr;
}

void RedisServer::put_back(std::unique_ptr<Connection> connection) {
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(connection));
}

void RedisServer::close_idle() {
    const std::scoped_lock lock(mutex_);
    idle_.clear();
}

std::string RedisServer::readable(std::string_view error) const {
    std::string out(error);
    const std::string& secret = login.password;
    for (std::size_t at = 0; !secret.empty() && (at = out.find(secret, at)) != out.npos; at += 3)
        out.replace(at, secret.size(), "...");
    out.resize(std::min<std::size_t>(out.size(), 200));
    for (char& c : out)
        if (static_cast<unsigned char>(c) < ' ' || c == 127) c = ' ';
    return out;
}

void Exchange::FreeAddresses::operator()(addrinfo* list) const {
    freeaddrinfo(list);
}

Exchange::Exchange(RedisServer& server, std::vector<Command> commands)
    : server_(&server), commands_(std::move(commands)) {}
Exchange::Exchange(Exchange&&) noexcept = default;
Exchange::~Exchange() = default;

void Exchange::run(std::span<Exchange> all, const Deadline& deadline) {
    std::vector<pollfd> sockets;
    std::vector<Exchange*> waiting;
    sockets.reserve(all.size());
    waiting.reserve(all.size());
    for (Exchange& each : all) each.begin(deadline);
    while (true) {
        sockets.clear();
        waiting.clear();
        auto first = Clock::time_point::max();
        for (Exchange& each : all) {
            if (each.phase_ == over) continue;
            const bool is_writing = each.phase_ == connecting || each.has_to_send();
            sockets.push_back({each.connection_->socket(),
                               static_cast<short>(is_writing ? POLLIN | POLLOUT : POLLIN), 0});
            waiting.push_back(&each);
            first = std::min(first, each.until_);
        }
        if (waiting.empty()) return;
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now()).count();
        // when it fails nothing has come
        poll(sockets.data(), sockets.size(),
             static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000'000)));
        for (std::size_t i = 0; i < waiting.size(); ++i) {
            if (sockets[i].revents != 0) waiting[i]->proceed(sockets[i].revents);
            if (waiting[i]->phase_ != over && Clock::now() >= waiting[i]->until_)
                waiting[i]->late();
        }
    }
}

void Exchange::begin(const Deadline& call) {
    call_ = &call;
    if (commands_.empty()) return;
    // Before anything is sent: what a server has carried out must not fail for lack of memory here.
    replies.reserve(commands_.size());
    received_.reset(new char[piece]);
    connection_ = server_->take();
    if (connection_ == nullptr) return resolve();
    is_kept_ = true;
    talk();
}

void Exchange::resolve() {
    addrinfo wanted{}, *list = nullptr;
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    const std::string port = text(server_->port);
    int code = getaddrinfo(server_->host.c_str(), port.c_str(), &wanted, &list);
    if (code == EAI_NONAME) {
        wanted.ai_flags = AI_NUMERICSERV;
        code = getaddrinfo(server_->host.c_str(), port.c_str(), &wanted, &list);
    }
    if (code == EAI_MEMORY) throw std::bad_alloc();
    if (code != 0) return fail(code == EAI_SYSTEM ? reason(errno) : gai_strerror(code));
    addresses_.reset(list);
    address_ = list;
    renew();
    connect();
}

/// To the first address that does not refuse at once.
void Exchange::connect() {
    const StandardStreams streams;
    int code = EADDRNOTAVAIL;
    for (; address_ != nullptr; address_ = address_->ai_next) {
        auto made = std::make_unique<Connection>();
        if (!made->open(address_->ai_family, address_->ai_protocol)) {
            code = errno;
            continue;
        }
        connection_ = std::move(made);
        phase_ = connecting;
        if (::connect(connection_->socket(), address_->ai_addr, address_->ai_addrlen) == 0)
            return connected();
        if (errno == EINPROGRESS || errno == EINTR) return;
        code = errno;
    }
    fail(reason(code));
}

void Exchange::connected() {
    const int socket = connection_->socket();
    int code = 0;
    socklen_t size = sizeof code;
    if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &size) != 0) code = errno;
    if (code == 0 && is_connected_to_itself(socket)) code = ECONNREFUSED;
    if (code != 0) {
        address_ = address_->ai_next;
        if (address_ != nullptr) return connect();
        return fail(reason(code));
    }
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    const RedisLogin& login = server_->login;
    if (!login.user.empty())
        Command{"AUTH", login.user, login.password}.append_to(out_), ++greetings_;
    else if (!login.password.empty())
        Command{"AUTH", login.password}.append_to(out_), ++greetings_;
    if (login.database != 0) Command{"SELECT", text(login.database)}.append_to(out_), ++greetings_;
    if (greetings_ == 0) return talk();
    phase_ = greeting;
    renew();
    send();
}

void Exchange::talk() {
    phase_ = talking;
    renew();
    send();
}

void Exchange::send() {
    while (has_to_send()) {
        if (sent_ == out_.size()) {
            out_.clear();
            sent_ = 0;
            while (next_ < commands_.size() && out_.size() < piece)
                commands_[next_++].append_to(out_);
        }
        const ssize_t count = ::send(connection_->socket(), out_.data() + sent_,
                                     out_.size() - sent_, no_signal | MSG_DONTWAIT);
        if (count < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK) return;
            return receive();  // what it said before it closed is worth more
        }
        sent_ += static_cast<std::size_t>(count);
        progress(static_cast<std::size_t>(count));
    }
    renew();
}

/// Not everything that has come: a server that sends without end must not keep the others, and the
/// deadline, waiting.
void Exchange::receive() {
    for (std::size_t i = 0; i < most_pieces; ++i) {
        const ssize_t count = recv(connection_->socket(), received_.get(), piece, MSG_DONTWAIT);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (count < 0) return broken(reason(errno));
        if (count == 0) return broken("closed the connection");
        progress(static_cast<std::size_t>(count));
        read({received_.get(), static_cast<std::size_t>(count)});
        if (phase_ == over || static_cast<std::size_t>(count) < piece) return;
    }
}

void Exchange::read(std::string_view bytes) {
    const Connection* const from = connection_.get();
    ReplyReader& reader = connection_->reader();
    while (!bytes.empty()) {
        if (phase_ == over) return connection_.reset();  // nobody asked for what comes now
        if (phase_ == talking && replies.size() >= next_)
            return fail("sent more than was asked for");
        const ReplyReader::Result result =
            reader.read(bytes, phase_ == greeting ? a_line : commands_[replies.size()].bounds());
        if (result == ReplyReader::wrong) return fail("sent what is no answer to the command");
        if (result == ReplyReader::more) return;
        keep(reader.take());
        if (connection_.get() != from) return;  // it failed, or was made again
    }
    if (phase_ == over) server_->put_back(std::move(connection_));
}

void Exchange::keep(Reply reply) {
    renew();
    if (phase_ == greeting) {
        if (reply.kind == Reply::error) return fail(server_->readable(reply.text));
        if (reply.kind != Reply::status) return fail("sent what is no answer to the command");
        if (--greetings_ == 0) talk();
        return;
    }
    replies.push_back(std::move(reply));
    if (replies.size() == commands_.size()) phase_ = over;
}

void Exchange::proceed(short events) {
    if (phase_ == connecting) return connected();
    if ((events & POLLOUT) != 0 && has_to_send()) send();
    if ((phase_ == greeting || phase_ == talking) && (events & (POLLIN | POLLERR | POLLHUP)) != 0)
        receive();
}

void Exchange::late() {
    const double seconds = std::chrono::duration<double>(server_->login.timeout).count();
    if (call_->is_over())
        return fail(text("not done within ", call_->seconds, " s, the call_timeout"));
    if (phase_ == connecting && address_->ai_next != nullptr) {
        address_ = address_->ai_next;
        renew();
        return connect();
    }
    fail(text(phase_ == connecting ? "no connection within " : "no answer within ", seconds, " s"));
}

/// Time for as much again.
void Exchange::progress(std::size_t bytes) {
    moved_ += bytes;
    if (moved_ >= piece) renew();
}

/// The server went away: once more, when it may have been long ago.
void Exchange::broken(const std::string& why) {
    if (!is_kept_) return fail(why);
    is_kept_ = false;
    server_->close_idle();
    out_.clear();
    sent_ = 0;
    next_ = replies.size();
    resolve();
}

void Exchange::fail(const std::string& why) {
    failure = text(std::string_view(server_->name), ": ", std::string_view(why));
    connection_.reset();
    phase_ = over;
}

}  // namespace sab::cache
