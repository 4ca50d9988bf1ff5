#!/usr/bin/env bash
# Builds the library and what it needs for musl in a chroot of bookworm, by the clang and libc++ of
# zig, and runs golden vectors and C tests there, all static and with libsab.so: musl.sh SCRATCH, by
# root. The C++ test that throws is left out with libsab.so, since zig puts a C++ runtime into each
# file that it links. So are those that fork among threads: malloc is zig's own here, not musl's,
# and its locks are not for that. The test that counts memory is left out, too, since the library
# does not take the program's operator new there.
set -euo pipefail
. "$(dirname "$0")/chroots.sh"
root=$scratch/musl
fresh_chroot bookworm "$root"
sources_in "$root"
install_in "$root" cmake ninja-build dpkg-dev nasm pkg-config libxxhash-dev libeigen3-dev musl redis-server
make_venv "$scratch/venv"
"$scratch/venv/bin/pip" install -q --target "$root/zig" ziglang==0.17.1
for tool in cc c++; do
  printf '#!/bin/sh\nexec /zig/ziglang/zig %s -target x86_64-linux-musl "$@"\n' $tool > "$root/usr/bin/x86_64-linux-musl-$tool"
  chmod +x "$root/usr/bin/x86_64-linux-musl-$tool"
done
in_chroot "$root" sh -euc '
  mkdir -p /sources /musl/lib /musl/include/isa-l
  cd /sources
  apt-get source -qq libisal libzstd lmdb simdjson
  cc="CC=x86_64-linux-musl-cc -fPIC -Wno-incompatible-function-pointer-types"
  make -C libisal-* -f Makefile.unx "$cc" lib
  make -C libzstd-*/lib "$cc" libzstd.a
  make -C lmdb-*/libraries/liblmdb "$cc" liblmdb.a
  x86_64-linux-musl-c++ -O2 -fPIC -c simdjson-*/singleheader/simdjson.cpp -o simdjson.o
  ar rcs /musl/lib/libsimdjson.a simdjson.o
  cp simdjson-*/singleheader/simdjson.h /musl/include/
  cp libisal-*/bin/isa-l.a /musl/lib/libisal.a
  cp libzstd-*/lib/libzstd.a lmdb-*/libraries/liblmdb/liblmdb.a /musl/lib/
  cp libisal-*/include/*.h /musl/include/isa-l/
  cp -r libzstd-*/lib/*.h lmdb-*/libraries/liblmdb/lmdb.h /usr/include/xxh*.h /usr/include/eigen3 /musl/include/' >> "$root.log" 2>&1
checkout_in "$root"
# Threads get 128 KiB, as from musl itself: zig would have musl give them more.
in_chroot "$root" sh -euc '
  cross="-G Ninja -DCMAKE_TOOLCHAIN_FILE=/sab/cmake/x86_64-linux-musl.cmake -DCMAKE_FIND_ROOT_PATH=/musl -DCMAKE_BUILD_TYPE=Release"
  links="-L/musl/lib -Wl,-z,stack-size=131072"
  cmake -S /sab -B /build $cross -DCMAKE_INSTALL_PREFIX=/prefix > /dev/null
  ninja -C /build --quiet
  cmake --install /build > /dev/null
  cmake -S /sab/tests/c -B /static $cross -DCMAKE_PREFIX_PATH=/prefix -DUSE_STATIC=ON -DCMAKE_EXE_LINKER_FLAGS="-static $links" > /dev/null
  cmake -S /sab/tests/c -B /shared $cross -DCMAKE_PREFIX_PATH=/prefix -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_EXE_LINKER_FLAGS="-pie $links" \
    -DCMAKE_MODULE_LINKER_FLAGS="$links" > /dev/null
  ninja -C /static --quiet
  ninja -C /shared --quiet
  export PKG_CONFIG_PATH=/prefix/lib/pkgconfig
  x86_64-linux-musl-cc -O2 -static /sab/tests/golden/golden.c $(pkg-config --static --cflags --libs sab) $links -o /static/golden
  x86_64-linux-musl-cc -O2 /sab/tests/golden/golden.c $(pkg-config --cflags --libs sab) -o /shared/golden
  left_out="cache_test|cache_redis_test|base_processes_test|plan_memory_test"
  [ -z "$(readelf -l /static/golden | grep INTERP)" ]
  readelf -l /shared/golden | grep -q ld-musl
  for vectors in /sab/tests/golden/*.txt; do /static/golden "$vectors"; done
  (cd /static && ctest --output-on-failure -E "$left_out")
  export LD_LIBRARY_PATH=/prefix/lib
  for vectors in /sab/tests/golden/*.txt; do /shared/golden "$vectors"; done
  cd /shared && ctest --output-on-failure -E "base_throws_test|$left_out"'
