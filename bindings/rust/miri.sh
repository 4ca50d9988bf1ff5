#!/bin/sh
# Runs the tests that need no library under Miri, which a nightly toolchain of rustup has. Without one they are left out, with a line that says so.
set -eu
cd "$(dirname "$0")"
toolchain=${MIRI_TOOLCHAIN:-nightly}
if ! cargo "+$toolchain" miri --version > /dev/null 2>&1; then
    log=$(mktemp)
    if ! rustup toolchain install "$toolchain" --profile minimal --component miri --component rust-src > "$log" 2>&1; then
        echo "Miri: skipped, rustup cannot install it: $(tail -n 1 "$log")"
        rm -f "$log"
        exit 0
    fi
    rm -f "$log"
fi
export DOCS_RS=1 # nothing is linked
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/miri cargo "+$toolchain" miri test --locked --quiet -p sab --lib
