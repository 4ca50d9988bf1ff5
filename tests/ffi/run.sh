#!/usr/bin/env bash
# The LuaJIT and Node examples and their tests against an installed libsab: run.sh PREFIX. A
# language that is not installed is skipped with a message.
set -euo pipefail
prefix=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../cmake/setup.sh"
examples=$here/../../examples
PKG_CONFIG_PATH=$(libdir_of "$prefix")/pkgconfig
export PKG_CONFIG_PATH
expected='padded to 12: 3 1 9 4 0
padded to 31: 2 5
padded to 29: 8 7
padded to  7: 6'
prints_the_batches() { diff <(echo "$expected") <("$@"); } # prints_the_batches COMMAND...

if command -v luajit > /dev/null; then
  export LUA_PATH="$examples/luajit/?.lua"
  check first.lua prints_the_batches luajit "$examples/luajit/first.lua"
  check test.lua luajit "$here/test.lua" "$here"/../golden/*.txt
else
  echo "LuaJIT skipped: there is no luajit"
fi
if command -v node > /dev/null && command -v npm > /dev/null; then
  (cd "$examples/node" && npm ci --silent --ignore-scripts)
  check first.mjs prints_the_batches node "$examples/node/first.mjs"
  check test.mjs node "$here/test.mjs" "$examples/node/sab.mjs" "$here"/../golden/*.txt
else
  echo "Node skipped: there is no node, or no npm"
fi
summary
