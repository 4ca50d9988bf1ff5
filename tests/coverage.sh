#!/usr/bin/env bash
# Prints line and branch coverage of src by the unit tests, C tests and golden vectors; fails below
# 95 % of the lines: coverage.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."
. cmake/setup.sh
use_ccache
make_venv build/venv
build/venv/bin/pip install -q gcovr==8.8
flags="--coverage -fprofile-update=atomic"
build "$1" -DSAB_BUILD_TESTS=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS_DEBUG=-O1 -DCMAKE_C_FLAGS_DEBUG=-O1
find "$1" -name '*.gcda' -delete
test_build "$1" -E unit_statistics # it runs nothing that others do not run
build/venv/bin/gcovr --root . --filter src/ --exclude '.*_windows\.cpp' --exclude src/torch/component/ --exclude-throw-branches --exclude-unreachable-branches \
  --print-summary --fail-under-line 95 "$1"
