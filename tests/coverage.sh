#!/usr/bin/env bash
# Prints line and branch coverage of src by the unit tests, C tests and golden vectors: coverage.sh
# BUILD. Fails below 95 % of the lines. What needs LibTorch is left out.
set -euo pipefail
cd "$(dirname "$0")/.."
. cmake/setup.sh
use_ccache
make_venv build/venv
build/venv/bin/pip install -q gcovr==8.8
rm -rf "$1" # notes of files that are gone, and counts of earlier runs
flags="--coverage -fprofile-update=atomic"
build "$1" -DSAB_BUILD_TESTS=ON -DCMAKE_UNITY_BUILD=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS_DEBUG=-O1 -DCMAKE_C_FLAGS_DEBUG=-O1
# unit_statistics runs nothing that others do not run; allocations_test forks too often to be quick.
test_build "$1" -E 'unit_statistics|allocations_test'
# A line of a template counts once.
build/venv/bin/gcovr --root . --filter src/ --exclude '.*_windows\.cpp' --exclude src/torch/ \
  --merge-lines --exclude-throw-branches --exclude-unreachable-branches \
  --print-summary --fail-under-line 95 "$1/CMakeFiles/sab_objects.dir"
