/* What the tests use of POSIX, where mingw-w64 lacks it. */
#ifndef POSIX_H
#define POSIX_H

#ifdef _WIN32
#include <io.h>
#include <stdlib.h>

static inline char *mkdtemp(char *name) {
    return mktemp(name) != NULL && mkdir(name) == 0 ? name : NULL;
}
static inline int setenv(const char *name, const char *value, int replace) {
    return replace ? _putenv_s(name, value) : -1;
}
static inline int unsetenv(const char *name) {
    return _putenv_s(name, "");
}
#endif

#endif
