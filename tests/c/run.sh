#!/usr/bin/env bash
# Builds and runs a program against an installed libsab in each way that programs find it: run.sh
# PREFIX SCRATCH. ctest in the build of libsab runs the C tests.
set -euo pipefail
prefix=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../cmake/setup.sh"
mkdir -p "$2"
scratch=$(realpath "$2")
libdir=$(libdir_of "$prefix")
export LD_LIBRARY_PATH=$libdir PKG_CONFIG_PATH=$libdir/pkgconfig
first=$here/../../examples/c/first.c

by_find_package() {
  cmake -S "$here" -B "$scratch" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" > /dev/null
  ninja -C "$scratch" --quiet base_test && "$scratch/base_test"
}
by_pkg_config() {
  local flags
  read -ra flags <<< "$(pkg-config --cflags --libs sab)"
  cc -std=c11 "$first" "${flags[@]}" -o "$scratch/first" && "$scratch/first"
}
static() { # the static library alone
  local flags
  read -ra flags <<< "$(pkg-config --static --cflags --libs sab | sed 's/-lsab/-l:libsab.a/')"
  cc -std=c11 "$first" "${flags[@]}" -o "$scratch/first_static" && LD_LIBRARY_PATH='' "$scratch/first_static"
}
same_headers() { # those that the C tests of the build include
  diff -r --exclude=.clang-format "$here/../../include" "$prefix/include" --exclude=features.h --exclude=sab_cdef.h --exclude=sab_abi.json
}

check "find_package" by_find_package
check "pkg-config" by_pkg_config
check "libsab.a" static
check "headers" same_headers
summary
