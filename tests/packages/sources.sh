#!/usr/bin/env bash
# Whether what is released as source has all of the core in it: sources.sh SDIST SCRATCH. The crate
# is packed here. Prints "N passed, N failed".
set -euo pipefail
repo=$(cd "$(dirname "$0")/../.." && pwd)
. "$repo/cmake/setup.sh"
sdist=$(realpath "$1")
rm -rf "$2" && mkdir -p "$2"
scratch=$(realpath "$2")
(cd "$repo/bindings/rust" && CARGO_TARGET_DIR=$scratch/cargo cargo package --quiet --locked --no-verify --allow-dirty --package sab-sys)
tar -C "$scratch" -xf "$scratch"/cargo/package/sab-sys-*.crate
tar -C "$scratch" -xf "$sdist"
for core in "$scratch"/sab-sys-*/libsab "$scratch"/libsab-*/libsab; do
  for part in CMakeLists.txt LICENSE cmake include src; do check "$core: $part" diff -r --exclude=.clang-format "$repo/$part" "$core/$part"; done
  check "$core: license beside it" test -f "$core/../LICENSE"
done
summary
