#!/usr/bin/env bash
# Programs of other languages against an installed libsab: run.sh PREFIX [LANGUAGE...]
# Without languages: luajit node go ruby php. There are also java, csharp and r. A language that is
# not installed is skipped with a message.
set -euo pipefail
prefix=$(realpath -e "$1")
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../cmake/setup.sh"
examples=$(realpath "$here/../../examples")
libdir=$(libdir_of "$prefix")
export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
expected='padded to 12: 3 1 9 4 0
padded to 31: 2 5
padded to 29: 8 7
padded to  7: 6'
prints_the_batches() { diff <(echo "$expected") <("$@"); } # prints_the_batches COMMAND...

has() { # has LANGUAGE COMMAND...
  local command
  for command in "${@:2}"; do
    command -v "$command" > /dev/null || { echo "$1 skipped: there is no $command" && return 1; }
  done
}

run_luajit() {
  has LuaJIT luajit || return 0
  export LUA_PATH="$examples/luajit/?.lua"
  check first.lua prints_the_batches luajit "$examples/luajit/first.lua"
  check test.lua luajit "$here/test.lua" "$here"/../golden/*.txt
}

run_node() {
  has Node node npm || return 0
  (cd "$examples/node" && npm ci --silent --ignore-scripts)
  check first.mjs prints_the_batches node "$examples/node/first.mjs"
  check test.mjs node "$here/test.mjs" "$examples/node/sab.mjs" "$here"/../golden/*.txt
}

run_go() {
  has Go go cc || return 0
  # Go's build cache does not see that headers change, but that the source does.
  { cat "$examples/other/first.go" && cat "$prefix"/include/sab/*.h | sha256sum | sed 's|^|// |'; } > "$scratch/first.go"
  check first.go prints_the_batches go run "$scratch/first.go"
}

run_ruby() {
  has Ruby ruby || return 0
  check first.rb prints_the_batches ruby -w "$examples/other/first.rb"
  check callback.rb ruby -w "$examples/other/callback.rb"
}

run_php() {
  has PHP php || return 0
  check first.php prints_the_batches php "$examples/other/first.php"
}

run_java() { # of Java 22 or later, for which /usr/lib/jvm is searched, too
  local each
  for each in "${JAVA_HOME:-/usr}/bin/java" /usr/lib/jvm/*/bin/java; do
    [ "$("$each" --version 2> /dev/null | sed -n '1s/^[^0-9]*\([0-9]*\).*/\1/p')" -ge 22 ] 2> /dev/null || continue
    check First.java prints_the_batches "$each" --enable-native-access=ALL-UNNAMED "$examples/other/First.java"
    return
  done
  echo "Java skipped: there is no Java 22 or later"
}

run_csharp() {
  has 'C#' mcs mono || return 0
  check "mcs" mcs -unsafe "-out:$scratch/First.exe" "$examples/other/First.cs"
  check First.cs prints_the_batches mono "$scratch/First.exe"
}

run_r() { # which counts from 1
  has R R Rscript cc make || return 0
  cp "$examples"/other/first{.R,_r.c} "$scratch"
  export PKG_CFLAGS PKG_LIBS
  PKG_CFLAGS=$(pkg-config --cflags sab) PKG_LIBS=$(pkg-config --libs sab)
  check first_r.c env -C "$scratch" R CMD SHLIB first_r.c
  local expected_of_0=$expected expected
  expected=$(awk '{ sub(/:/, ": ") } { printf "padded to %2d:", $3; for (i = 4; i <= NF; ++i) printf " %d", $i + 1; print "" }' <<< "$expected_of_0")
  check first.R prints_the_batches env -C "$scratch" Rscript first.R
}

[ $# -gt 1 ] || set -- "$1" luajit node go ruby php
for language in "${@:2}"; do "run_$language"; done
summary
