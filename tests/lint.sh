#!/usr/bin/env bash
# Runs the linters: tests/lint.sh [CHECK...], by default all of them:
# clang-format, clang-tidy, ruff, types (mypy and pyright), rustfmt, clippy, shellcheck, prose.
# They are installed into build/lint-venv. `tests/lint.sh format` formats all files instead.
set -euo pipefail
cd "$(dirname "$0")/.."
. cmake/setup.sh
rust_toolchain=1.95.0
venv=$PWD/build/lint-venv

install_linters() {
  # What clang-tidy needs of the library's dependencies, and packages whose types are read.
  need_packages g++ cmake ninja-build libxxhash-dev libeigen3-dev libisal-dev libsimdjson-dev libzstd-dev \
    liblmdb-dev libgtest-dev python3-venv python3-numpy python3-torch
  local requirements=tests/lint-requirements.txt
  cmp -s $requirements "$venv/installed.txt" && return
  make_venv "$venv"
  "$venv/bin/pip" install -q -r $requirements
  cp $requirements "$venv/installed.txt"
}

# Files that are written by hand, one line each.
c_files() {
  git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | grep -vxE 'include/sab_cdef\.h|tests/abi/(example|[0-9.]+)/.*'
}
# Shell scripts that begin with #!.
shell_scripts() {
  git ls-files -s | sed -n 's/^100.*\t//p' | xargs grep -IlE '^#!.*[/ ](ba)?sh( |$)'
}

run_clang-format() {
  c_files | xargs clang-format --dry-run -Werror
}

# What needs LibTorch is left out: its headers do not compile with this clang. A room of src is one
# source, as with the sanitizers, so that headers are read once a room.
run_clang-tidy() {
  cmake -S . -B build/lint -G Ninja -DSAB_BUILD_TESTS=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_UNITY_BUILD=ON > /dev/null
  cp tests/.clang-tidy build/lint/tests/ # found from the sources that CMake makes there
  local log=build/lint/clang-tidy.log
  run-clang-tidy.py -p build/lint -j "$(nproc)" -quiet -hide-progress "^$PWD/(build/lint|src|tests)/.*" \
    > $log 2>&1 || { grep -E -A 5 '(error|warning):' $log || cat $log; return 1; }
}

run_ruff() {
  ruff check --quiet --output-format concise
  ruff format --check --quiet
}

run_types() {
  (cd bindings/python && mypy)
  mypy
  pyright -p bindings/python --pythonpath "$venv/bin/python"
}

# Whether rustup has the toolchain; says why the caller is skipped where it cannot be installed.
has_rust_toolchain() {
  if ! command -v rustup > /dev/null; then
    echo "SKIPPED: $1: rustup is not installed"
    return 1
  fi
  rustup run $rust_toolchain cargo "$1" --version > /dev/null 2>&1 ||
    rustup toolchain install $rust_toolchain --profile minimal -c clippy -c rustfmt \
      --no-self-update > /dev/null 2>&1 ||
    { echo "SKIPPED: $1: rustup cannot install $rust_toolchain" && return 1; }
}
run_rustfmt() {
  has_rust_toolchain fmt || return 0
  local workspace
  for workspace in bindings/rust docs/code/rust docs/code/burn; do
    (cd $workspace && rustup run $rust_toolchain cargo fmt --all --check)
  done
}
run_clippy() {
  has_rust_toolchain clippy || return 0
  # With DOCS_RS nothing is linked, so that libsab need not be there.
  (cd bindings/rust && DOCS_RS=1 CARGO_TARGET_DIR="${OLDPWD}/build/cargo-lint" \
    rustup run $rust_toolchain cargo clippy --quiet --locked --workspace --all-targets \
    --features arrow -- -D warnings)
}

run_shellcheck() {
  shell_scripts | xargs shellcheck
  # What is sourced, and examples of the documentation.
  git ls-files -s '*.sh' | sed -n 's/^100.*\t//p' | xargs grep -L '^#!' | xargs shellcheck -s bash
}

run_prose() {
  python3 tests/prose.py
}

format() {
  c_files | xargs clang-format -i
  ruff check --quiet --fix
  ruff format --quiet
  ! has_rust_toolchain fmt || (cd bindings/rust && rustup run $rust_toolchain cargo fmt --all)
}

install_linters
export PATH=$venv/bin:$PATH
checks=("$@")
[ $# -gt 0 ] || checks=(clang-format ruff prose shellcheck rustfmt types clippy clang-tidy)
if [ "${checks[*]}" = format ]; then
  format
  exit
fi
failed=()
for check in "${checks[@]}"; do
  echo "-- $check"
  set +e # a subshell on the left of || would ignore errors
  (set -e; "run_$check")
  status=$?
  set -e
  [ $status -eq 0 ] || failed+=("$check")
done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
