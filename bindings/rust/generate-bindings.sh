#!/bin/sh
# Writes sab-sys/src/bindings.rs from the headers, or with --check says whether it is up to date.
# Needs libclang and the bindgen named below: cargo install bindgen-cli --version 0.72.1 --locked
set -eu
version=0.72.1
here=$(cd "$(dirname "$0")" && pwd)
bindgen=${BINDGEN:-bindgen}
found=$("$bindgen" --version | cut -d ' ' -f 2)
if [ "$found" != "$version" ]; then
    echo "bindgen $version is needed, found ${found:-none}" >&2
    exit 2
fi

output=$here/sab-sys/src/bindings.rs
if [ "${1:-}" = --check ]; then
    expected=$output
    output=$(mktemp)
    trap 'rm -f "$output"' EXIT
fi
"$bindgen" "$here/../../include/sab.h" --output "$output" \
    --allowlist-item 'sab_.*|SAB_.*' --blocklist-item 'SAB_API|SAB_H|SAB_[A-Z]+_H|SAB_NOEXCEPT|SAB_.*_INIT' \
    --default-enum-style consts --default-macro-constant-type signed \
    --use-core --formatter prettyplease --rust-target 1.77 --rust-edition 2021 --no-doc-comments \
    --raw-line "// Written by generate-bindings.sh; do not edit." \
    -- -I "$here/../../include" -std=c11
if [ "${1:-}" = --check ]; then
    diff -u "$expected" "$output" || { echo "bindings.rs is not up to date: run generate-bindings.sh" >&2; exit 1; }
fi
