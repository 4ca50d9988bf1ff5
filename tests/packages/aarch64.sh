#!/usr/bin/env bash
# Cross-compiles the library and the C tests for 64-bit ARM in a chroot of bookworm, and runs golden
# vectors and tests there by qemu: aarch64.sh SCRATCH, by root.
# What qemu-user cannot do is left out: processes that are killed or stopped, fork among threads, or
# close the standard streams. So are slow tests: failing allocations and Redis.
set -euo pipefail
. "$(dirname "$0")/chroots.sh"
root=$scratch/aarch64
fresh_chroot bookworm "$root"
in_chroot "$root" dpkg --add-architecture arm64
in_chroot "$root" apt-get update -qq
install_in "$root" cmake ninja-build ccache g++-aarch64-linux-gnu libxxhash-dev libeigen3-dev qemu-user-static \
  libc6-dev:arm64 libstdc++6:arm64 libisal-dev:arm64 liblmdb-dev:arm64 libsimdjson-dev:arm64 libzstd-dev:arm64
checkout_in "$root"
in_chroot "$root" sh -euc '
  cross="-G Ninja -DCMAKE_TOOLCHAIN_FILE=/sab/cmake/aarch64-linux-gnu.cmake -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache"
  cmake -S /sab -B /build $cross -DCMAKE_INSTALL_PREFIX=/prefix > /dev/null
  ninja -C /build --quiet
  cmake --install /build > /dev/null
  cmake -S /sab/tests/c -B /tests $cross -DCMAKE_PREFIX_PATH=/prefix > /dev/null
  ninja -C /tests --quiet
  aarch64-linux-gnu-gcc /sab/tests/golden/golden.c -I/prefix/include -L$(dirname /prefix/lib*/libsab.so) -lsab -lm -o /tests/golden
  aarch64-linux-gnu-strip -o /stripped $(realpath /prefix/lib*/libsab.so)
  echo "$(stat -c %s /stripped) bytes stripped"
  export LD_LIBRARY_PATH=$(dirname /prefix/lib*/libsab.so)
  for vectors in /sab/tests/golden/*.txt; do qemu-aarch64-static /tests/golden "$vectors"; done
  cd /tests && ctest --output-on-failure -LE slow -E "cache_test|base_processes_test|base_embedding_test"'
