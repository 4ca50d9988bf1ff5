#!/bin/sh
# Runs the tests that need no library under Miri, which only nightly toolchains of rustup have. Without rustup, or a network to install the toolchain from, they are skipped with a message.
set -eu
cd "$(dirname "$0")"
toolchain=nightly-2026-10-30
if ! command -v rustup > /dev/null; then
    echo "SKIPPED: tests under Miri: rustup is not installed"
    exit 0
fi
# +toolchain is understood by rustup's cargo only; another one may come first in PATH.
cargo() { rustup run "$toolchain" cargo "$@"; }
if ! cargo miri --version > /dev/null 2>&1; then
    log=$(mktemp)
    if ! rustup toolchain install "$toolchain" --profile minimal --component miri --component rust-src --no-self-update > "$log" 2>&1; then
        echo "SKIPPED: tests under Miri: rustup cannot install $toolchain: $(grep -m 1 '^error' "$log" || tail -n 1 "$log")"
        rm -f "$log"
        exit 0
    fi
    rm -f "$log"
fi
export DOCS_RS=1 # nothing is linked
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/miri cargo miri test --locked --quiet -p libsab --lib
