#!/usr/bin/env bash
# The cost of a call of sab_next_batch from each language: calls.sh PREFIX [PYTHON]. Columns are
# nanoseconds: of the raw call; of a batch as the language represents it; and of its indices alone.
# The minimum of three rounds, taken in turn. Languages that are not installed, or have no sab, are
# left out with a message.
set -euo pipefail
prefix=$(cd "$1" && pwd) python=${2:-python3}
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name sab.pc | head -1)")
LD_LIBRARY_PATH=$(dirname "$(find "$prefix" -name libsab.so.0 | head -1)")
export PKG_CONFIG_PATH LD_LIBRARY_PATH LUA_PATH="$repository/examples/luajit/?.lua"

names=() commands=()
language() { # language NAME NEEDS COMMAND...: takes part where the command that it needs is there
  local name=$1 needed=$2
  shift 2
  if eval "$needed" > /dev/null 2>&1; then
    names+=("$name") commands+=("$(printf '%q ' "$@")")
  else
    echo "$name is left out: not so here: $needed" >&2
  fi
}

cc -O2 "$here/call.c" $(pkg-config --cflags --libs sab) -o "$scratch/call"
language C true "$scratch/call"
if command -v cargo > /dev/null; then
  (cd "$repository/bindings/rust" &&
    cargo build --quiet --release --locked -p libsab --features system --example call)
fi
rust=${CARGO_TARGET_DIR:-$repository/bindings/rust/target}/release/examples/call
language Rust "test -x $rust" "$rust"
language LuaJIT 'command -v luajit' luajit "$here/call.lua"
julia=${JULIA:-julia}
language Julia "command -v $julia && test -f $here/call.jl" \
  env SAB_LIBRARY="$LD_LIBRARY_PATH/libsab.so.0" JULIA_LOAD_PATH=@:@stdlib "$julia" \
  "--project=$repository/bindings/julia" --startup-file=no "$here/call.jl"
language Node "command -v node && test -d $repository/examples/node/node_modules" \
  node "$here/call.mjs" "$repository/examples/node/sab.mjs"
language Python "$python -c 'import sab'" "$python" "$here/call.py"

for _ in 1 2 3; do
  for i in "${!names[@]}"; do
    eval "${commands[$i]}" | sed "s/^/${names[$i]} /"
  done
done > "$scratch/rounds"
echo "| language | raw call | a batch | indices alone |"
echo "|---|---:|---:|---:|"
awk '{ column = $2 ~ /-batches$/ ? 2 : $2 ~ /-indices$/ ? 3 : 1
       if (!seen[$1]++) order[++count] = $1
       if (!(($1, column) in least) || $3 < least[$1, column]) least[$1, column] = $3 }
     END { for (i = 1; i <= count; ++i) {
             printf "| %s |", order[i]
             for (column = 1; column <= 3; ++column)
               if ((order[i], column) in least) printf " %.0f |", least[order[i], column]
               else printf "  |"
             print "" } }' "$scratch/rounds"
