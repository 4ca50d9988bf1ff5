#include "cache/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "cache/descriptors.h"
#include "cache/random_word.h"
#include "cache/redis_exchange.h"

extern char** environ;

namespace sab::cache {
namespace {

constexpr int tries = 10;  // since another may take a port that was free
constexpr double least_patience = 10;
constexpr int status_in_shell = 3, leash_in_shell = 4;

/// Reads the server's configuration from the leash, starts it in a session of its own, and ends it
/// when the leash says no more, which is when nobody holds its other end. The password is on no
/// command line. The first process ends at once, so that there is nothing to be waited for later.
constexpr char script[] = R"(
umask 077
command -v "$1" > /dev/null || { echo missing >&3; exit; }
{
  trap '' HUP INT TERM
  config=
  while IFS= read -r line && [ -n "$line" ]; do
    config="$config$line
"
  done <&4
  "$1" - 4<&- <<END &
$config
END
  server=$!
  exec 3>&-
  { while read -r line; do :; done; kill -9 $server; } <&4 &
  wait $server
  kill -9 $!
} &
)";

[[noreturn]] void cannot(const std::string& program, std::string_view why, int32_t number = 0) {
    fail_io(number, "cannot start", program, why);
}

void check_system(bool is_done, const std::string& program) {
    if (!is_done) cannot(program, std::strerror(errno), errno);
}

/// Two ends, neither of which is a standard stream or goes to programs that are started.
struct Pipe {
    explicit Pipe(const std::string& program) {
        int both[2];
        check_system(new_pipe(both), program);
        for (int& end : both) {
            const int higher = fcntl(end, F_DUPFD_CLOEXEC, 10);
            if (higher >= 0) close(end), end = higher;
        }
        out = both[0];
        in = both[1];
    }
    ~Pipe() { close_end(out), close_end(in); }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    static void close_end(int& end) {
        if (end >= 0) close(end);
        end = -1;
    }
    int out = -1, in = -1;
};

uint16_t free_port(const std::string& program, const std::string& where) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    if (inet_pton(AF_INET, where.c_str(), &address.sin_addr) != 1)
        cannot(program, text("\"", std::string_view(where), "\" is no IPv4 address"));
    const int socket = new_socket(AF_INET, 0);
    check_system(socket >= 0, program);
    socklen_t size = sizeof address;
    const bool is_done = bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                         getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    close(socket);
    check_system(is_done, program);
    return ntohs(address.sin_port);
}

/// A process with the two ends that the script needs, and no other file of ours.
void spawn(const std::string& program, int leash, int status) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&actions) != 0) throw std::bad_alloc();
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        throw std::bad_alloc();
    }
    int added = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
    for (const auto& [from, to] :
         {std::pair(0, 1), std::pair(0, 2), std::pair(status, status_in_shell),
          std::pair(leash, leash_in_shell)})
        if (added == 0) added = posix_spawn_file_actions_adddup2(&actions, from, to);
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
    if (added == 0) added = posix_spawn_file_actions_addclosefrom_np(&actions, leash_in_shell + 1);
#else
    for (long end = std::clamp<long>(sysconf(_SC_OPEN_MAX), 256, 4096), file = leash_in_shell + 1;
         file < end && added == 0; ++file)
        added = posix_spawn_file_actions_addclose(&actions, static_cast<int>(file));
#endif
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
#ifdef POSIX_SPAWN_SETSID
    flags |= POSIX_SPAWN_SETSID;  // what a terminal sends is not for the server
#endif
    posix_spawnattr_setflags(&attributes, flags);
    const char* const words[] = {"/bin/sh",       "-c",   script, "sab-redis-server",
                                 program.c_str(), nullptr};
    pid_t process = 0;
    const int code = added != 0 ? added
                                : posix_spawn(&process, words[0], &actions, &attributes,
                                              const_cast<char* const*>(words), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (code == ENOMEM) throw std::bad_alloc();
    if (code != 0)
        cannot(program, text("/bin/sh: ", std::string_view(std::system_category().message(code))));
    while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
    }
}

bool is_answering(const RedisAddress& address) {
    const RedisHost& host = address.hosts[0];
    RedisServer server(host.name, host.port,
                       {host.user, host.password, 0, std::chrono::seconds(1)});
    Exchange exchange(server, {Command{"PING"}});
    Exchange::run({&exchange, 1}, Deadline(1));
    return exchange.failure.empty() && exchange.replies[0].kind == Reply::status;
}

/// Waits until the server answers; false when it ended.
bool wait_for(const RedisAddress& address, int status, const std::string& program, double seconds) {
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(seconds));
    while (Clock::now() < deadline) {
        pollfd waiting{status, POLLIN, 0};
        if (poll(&waiting, 1, 2) > 0) {
            char said = 0;
            const ssize_t count = ::read(status, &said, 1);
            if (count > 0) cannot(program, "there is no such program");
            if (count == 0) return false;
        }
        if (is_answering(address)) return true;
    }
    cannot(program, text("no answer within ", seconds, " s"));
}

}  // namespace

Server::Server(const std::string& program, const std::string& bind, uint64_t capacity,
               double timeout) {
    for (int i = 0; i < tries; ++i) {
        address_ = {};
        address_.hosts.push_back({bind, free_port(program, bind), "", random_word()});
        const std::string config =
            text("bind ", std::string_view(bind), "\nport ", address_.hosts[0].port,
                 "\nrequirepass ", std::string_view(address_.hosts[0].password),
                 "\nsave \"\"\nappendonly no\ndaemonize no\nlogfile \"\"\ndir /\nmaxmemory ",
                 capacity, "\nmaxmemory-policy allkeys-random\n\n");
        Pipe leash(program), status(program);
        check_system(
            write(leash.in, config.data(), config.size()) == static_cast<ssize_t>(config.size()),
            program);
        spawn(program, leash.out, status.in);
        Pipe::close_end(status.in);
        if (!wait_for(address_, status.out, program, std::max(timeout, least_patience))) continue;
        std::swap(leash_, leash.in);
        return;
    }
    cannot(program, text("it ended at once, ", tries, " times"));
}

/// In a child this is its own end only: the server goes on for the parent.
Server::~Server() {
    if (leash_ >= 0) close(leash_);
}

}  // namespace sab::cache
