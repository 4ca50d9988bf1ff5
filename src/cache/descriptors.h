#pragma once
/// Sockets and pipes that programs started from here do not inherit. Apple's system can only say so
/// in a second step.

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace sab::cache {

#ifdef __APPLE__

inline bool new_pipe(int (&ends)[2]) {
    if (pipe(ends) != 0) return false;
    for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
    return true;
}

/// A stream socket, -1 on failure; what is sent to a closed one raises no signal.
inline int new_socket(int family, int protocol) {
    const int socket = ::socket(family, SOCK_STREAM, protocol);
    if (socket < 0) return -1;
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
    fcntl(socket, F_SETFD, FD_CLOEXEC);
    return socket;
}

constexpr int no_signal = 0;

#else

inline bool new_pipe(int (&ends)[2]) {
    return pipe2(ends, O_CLOEXEC) == 0;
}

/// A stream socket, -1 on failure; what is sent to a closed one raises no signal when `no_signal`
/// is among the flags.
inline int new_socket(int family, int protocol) {
    return ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, protocol);
}

constexpr int no_signal = MSG_NOSIGNAL;

#endif

}  // namespace sab::cache
