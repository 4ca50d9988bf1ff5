#!/usr/bin/env bash
# Builds and runs C tests against an installed libsab, found by find_package and by pkg-config:
# run.sh PREFIX SCRATCH. Leaves out those with the label slow; ctest in the build of libsab runs all.
set -euo pipefail
prefix=$1 scratch=$2
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../cmake/setup.sh"
libdir=$(libdir_of "$prefix")
export LD_LIBRARY_PATH=$libdir PKG_CONFIG_PATH=$libdir/pkgconfig
for found_by in find_package pkg_config; do
  cmake -S "$here" -B "$scratch/$found_by" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DUSE_PKG_CONFIG="$([ $found_by = pkg_config ] && echo ON || echo OFF)" > /dev/null
done
# Found by pkg-config it is the same library: a program of each kind is enough.
ninja -C "$scratch/find_package" --quiet
test_build "$scratch/find_package" -LE slow
ninja -C "$scratch/pkg_config" --quiet base_test example_first
test_build "$scratch/pkg_config" -R '^(base_test|example_first)$'
# The static library alone.
read -ra flags <<< "$(pkg-config --static --cflags --libs sab | sed 's/-lsab/-l:libsab.a/')"
cc -std=c11 "$here/../../examples/c/first.c" "${flags[@]}" -o "$scratch/first_static"
LD_LIBRARY_PATH='' "$scratch/first_static" > /dev/null
