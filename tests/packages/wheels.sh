#!/usr/bin/env bash
# Builds the wheels of what is committed here in a chroot of Debian 11, for Linux with glibc 2.31 or
# later: wheels.sh SCRATCH OUTPUT [PROCESSOR...], by root. A processor is x86_64, the default, or
# aarch64, which is cross-compiled. trials.sh installs and runs both.
set -euo pipefail
. "$(dirname "$0")/chroots.sh"
output=$(mkdir -p "$2" && cd "$2" && pwd)
shift 2
[ $# -gt 0 ] || set -- x86_64
needs=(libisal-dev libsimdjson-dev libzstd-dev liblmdb-dev)

for processor in "$@"; do
  root=$scratch/wheel-$processor
  settings=()
  fresh_chroot bullseye "$root"
  # Without make, g++ 10 does not link with -flto=auto.
  install_in "$root" ca-certificates ccache g++ make python3-dev python3-venv libxxhash-dev libeigen3-dev
  if [ "$processor" = x86_64 ]; then
    install_in "$root" "${needs[@]}"
  else
    in_chroot "$root" dpkg --add-architecture arm64
    in_chroot "$root" apt-get update -qq
    install_in "$root" g++-aarch64-linux-gnu libpython3-dev:arm64 "${needs[@]/%/:arm64}"
    settings=(CMAKE_TOOLCHAIN_FILE=/sab/cmake/aarch64-linux-gnu.cmake _PYTHON_HOST_PLATFORM=linux-aarch64)
  fi
  checkout_in "$root"
  in_chroot "$root" env "${settings[@]}" CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=/ CCACHE_NOHASHDIR=1 \
    /sab/bindings/python/build-wheel.sh /wheels
  cp "$root"/wheels/*.whl "$output"
done
