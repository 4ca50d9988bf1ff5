#!/usr/bin/env bash
# Cross-compiles the library and the C tests for 64-bit Windows in a chroot of bookworm, and runs
# golden vectors and tests there by wine: windows.sh SCRATCH, by root.
set -euo pipefail
. "$(dirname "$0")/chroots.sh"
root=$scratch/windows
fresh_chroot bookworm "$root"
sources_in "$root"
install_in "$root" cmake ninja-build ccache make nasm dpkg-dev zstd g++-mingw-w64-x86-64-posix wine64 libxxhash-dev libeigen3-dev
checkout_in "$root"
mkdir "$root/sources"
# Debian has no ISA-L, simdjson and Zstandard for Windows, but their sources.
in_chroot "$root" sh -euc '
  cd /sources
  apt-get source -qq libisal libzstd simdjson
  make -s -C libisal-* -f Makefile.unx arch=mingw AS=nasm units=igzip lib
  make -s -C libzstd-*/lib libzstd.a CC=x86_64-w64-mingw32-gcc AR=x86_64-w64-mingw32-ar ZSTD_LIB_COMPRESSION=0 ZSTD_LIB_DICTBUILDER=0
  x86_64-w64-mingw32-g++ -O2 -c simdjson-*/singleheader/simdjson.cpp -o simdjson.o
  windows=/usr/x86_64-w64-mingw32
  x86_64-w64-mingw32-ar rcs $windows/lib/libsimdjson.a simdjson.o
  install -D -t $windows/include simdjson-*/singleheader/simdjson.h
  install -D -t $windows/include/isa-l libisal-*/include/igzip_lib.h libisal-*/include/types.h
  install -D -t $windows/include libzstd-*/lib/zstd.h libzstd-*/lib/zstd_errors.h /usr/include/xxhash.h
  install libisal-*/bin/isa-l.a $windows/lib/libisal.a
  install -t $windows/lib libzstd-*/lib/libzstd.a
  cp -r /usr/include/eigen3 $windows/include/' >> "$root.log" 2>&1
in_chroot "$root" sh -euc '
  cross="-G Ninja -DCMAKE_TOOLCHAIN_FILE=/sab/cmake/x86_64-w64-mingw32.cmake -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache"
  cmake -S /sab -B /build $cross -DCMAKE_INSTALL_PREFIX=/prefix > /dev/null
  ninja -C /build --quiet
  cmake --install /build > /dev/null
  cmake -S /sab/tests/c -B /tests $cross -DCMAKE_PREFIX_PATH=/prefix > /dev/null
  ninja -C /tests --quiet
  x86_64-w64-mingw32-gcc -static /sab/tests/golden/golden.c -I/prefix/include /prefix/lib/libsab.dll.a -o /tests/golden.exe'
in_chroot "$root" sh -euc '
  export WINEDEBUG=-all WINEPATH="Z:\\prefix\\bin"
  wine() { /usr/lib/wine/wine64 "$@"; }
  for vectors in /sab/tests/golden/*.txt; do wine /tests/golden.exe "$vectors"; done
  cd /tests && ctest --output-on-failure
  cp /sab/README.md /sab/ARCHITECTURE.md . && gzip -k ./*.md && zstd -q ./*.md
  for ending in md md.gz md.zst; do wine example_stream.exe README.$ending ARCHITECTURE.$ending; done'
