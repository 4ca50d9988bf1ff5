#!/usr/bin/env bash
# Runs the unit tests, C tests and golden vectors, and prints their line and branch coverage of src:
# coverage.sh BUILD. Fails below 95 % of the lines. What needs LibTorch is left out.
set -euo pipefail
cd "$(dirname "$0")/.."
. cmake/setup.sh
use_ccache
make_venv build/venv
build/venv/bin/pip install -q gcovr==8.8
rm -rf "$1" # notes of files that are gone, and counts of earlier runs
build "$1" -DSAB_BUILD_TESTS=ON -DCMAKE_UNITY_BUILD=ON -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_FLAGS=--coverage -DCMAKE_C_FLAGS=--coverage \
  -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1 -DNDEBUG" -DCMAKE_C_FLAGS_DEBUG="-O1 -g1"
# Statistics run nothing that others do not run.
test_build "$1" -E ^unit_statistics
# A line of a template counts once. Threads may lose counts of each other, which does not matter:
# atomic counters would take twenty times as long.
build/venv/bin/gcovr --root . --filter src/ --exclude '.*_windows\.cpp' --exclude src/torch/ \
  --gcov-ignore-parse-errors=negative_hits.warn_once_per_file --gcov-suspicious-hits-threshold=0 \
  --merge-lines --exclude-throw-branches --exclude-unreachable-branches \
  --print-summary --fail-under-line 95 "$1/CMakeFiles/sab_objects.dir" | tee build/coverage.txt
