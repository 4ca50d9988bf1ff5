#!/usr/bin/env bash
# Builds and runs the C tests against an installed libsab: run.sh PREFIX SCRATCH [SANITIZERS]. Found both ways, tested both ways.
set -euo pipefail
prefix=$1 scratch=$2 sanitizers=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
libdir=$(dirname "$(find "$prefix" -name libsab.so | head -1)")
export LD_LIBRARY_PATH=$libdir PKG_CONFIG_PATH=$libdir/pkgconfig
for found_by in find_package pkg_config; do
  cmake -S "$here" -B "$scratch/$found_by" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DSAB_SANITIZE="$sanitizers" \
    -DUSE_PKG_CONFIG=$([ $found_by = pkg_config ] && echo ON || echo OFF) > /dev/null
  ninja -C "$scratch/$found_by" --quiet
  (cd "$scratch/$found_by" && ctest --output-on-failure)
done
