#!/usr/bin/env bash
# The LuaJIT and Node examples and their tests against an installed libsab: run.sh PREFIX. A
# language that is not installed is skipped with a message.
set -euo pipefail
prefix=$1
here=$(cd "$(dirname "$0")" && pwd)
examples=$here/../../examples
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name sab.pc | head -1)")
export PKG_CONFIG_PATH
expected='padded to 12: 3 1 9 4 0
padded to 31: 2 5
padded to 29: 8 7
padded to  7: 6'
passed=0 failed=0

# run NAME COMMAND...: adds up the last line of what it prints.
run() {
  local name=$1 said line
  shift
  said=$("$@") || true
  line=$(tail -n 1 <<< "$said")
  if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
  else
    echo "FAILED $name: ${said:-nothing was said}"
    failed=$((failed + 1))
  fi
}

example() { # example NAME COMMAND...: prints what it must
  local name=$1 said
  shift
  said=$("$@") || true
  if [ "$said" = "$expected" ]; then
    passed=$((passed + 1))
  else
    echo "FAILED $name: $said"
    failed=$((failed + 1))
  fi
}

if command -v luajit > /dev/null; then
  export LUA_PATH="$examples/luajit/?.lua"
  example first.lua luajit "$examples/luajit/first.lua"
  run test.lua luajit "$here/test.lua" "$here"/../golden/*.txt
else
  echo "LuaJIT skipped: there is no luajit"
fi
if command -v node > /dev/null && command -v npm > /dev/null; then
  (cd "$examples/node" && npm ci --silent --ignore-scripts)
  example first.mjs node "$examples/node/first.mjs"
  run test.mjs node "$here/test.mjs" "$examples/node/sab.mjs" "$here"/../golden/*.txt
else
  echo "Node skipped: there is no node, or no npm"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
