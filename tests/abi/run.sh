#!/usr/bin/env bash
# Whether programs of the past and of the future run with this library: run.sh PREFIX PROGRAMS SCRATCH. PREFIX is an installation of a build with
# SAB_BUILD_TESTS, PROGRAMS the C tests that were built against it. docs/abi.md has the rules. Prints "N passed, N failed".
set -euo pipefail
prefix=$(realpath "$1") programs=$(realpath "$2") scratch=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/abi.sh"
rm -rf "$scratch" && mkdir -p "$scratch"
scratch=$(realpath "$scratch")
libdir=$(dirname "$(find "$prefix" -name libsab.so)")
passed=0 failed=0
check() { # check WHAT COMMAND...
  local what=$1
  shift
  if "$@" > "$scratch/log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED $what" && tail -30 "$scratch/log"; fi
}
same() { abidiff --suppressions "$here/allowed.suppr" --no-added-syms "$@"; }
differs() { ! same "$@"; }

symbols() { grep -oE "elf-symbol name='sab_[a-z0-9_]+' version='$2'" "$1" | sort; } # symbols FILE NODE
same_symbols() { diff <(symbols "$1" "$3") <(symbols "$2" "$3"); }
same_defaults() { diff "$1/defaults.txt" <(/usr/bin/python3 -B "$here/defaults.py" "$libdir/libsab.so" "$1/sab_cdef.h"); }

dump "$prefix" "$scratch/now.abi"
for release in "$here"/[0-9]*/; do
  name=$(basename "$release")
  check "abidiff against $name" same "$release/libsab.abi" "$scratch/now.abi"
  check "declarations of $name" /usr/bin/python3 -B "$here/compare.py" "$release/sab_cdef.h" "$prefix/share/libsab/sab_cdef.h"
  check "functions of SAB_$name" same_symbols "$release/libsab.abi" "$scratch/now.abi" "SAB_$name"
  check "defaults of $name" same_defaults "$release"
  # What abidiff must find: a function that is gone, a parameter that is.
  sed '/elf-symbol name=.sab_plan_new./d' "$scratch/now.abi" > "$scratch/gone.abi"
  check "a lost function is found" differs "$release/libsab.abi" "$scratch/gone.abi"
  sed "/name='sab_sampler_at'/,/<\/function-decl>/ { /<parameter [^>]*name='position'/d }" "$scratch/now.abi" > "$scratch/parameter.abi"
  check "a lost parameter is found" differs "$release/libsab.abi" "$scratch/parameter.abi"

  programs_then=$release/programs-$(uname -m).tar.xz
  if [ -e "$programs_then" ]; then
    mkdir -p "$scratch/$name" && tar -C "$scratch/$name" -xJf "$programs_then"
    for program in "$scratch/$name"/*; do check "$(basename "$program") of $name" env LD_LIBRARY_PATH="$libdir" "$program"; done
  else
    echo "no programs of $name for $(uname -m): skipped"
  fi
done

# A library with a field more in every struct, and programs built against its headers.
mkdir "$scratch/source"
cp -r "$here"/../../{CMakeLists.txt,cmake,include,src} "$scratch/source"
/usr/bin/python3 "$here/grow.py" "$scratch/source/include"
cmake -S "$scratch/source" -B "$scratch/grown" -G Ninja -DCMAKE_UNITY_BUILD=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -w" > /dev/null
ninja -C "$scratch/grown" --quiet sab sab_static
cmake --install "$scratch/grown" --prefix "$scratch/prefix" > /dev/null
grown=$(dirname "$(find "$scratch/prefix" -name libsab.so)")
cmake -S "$here/../c" -B "$scratch/later" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" -DCMAKE_C_FLAGS=-Wno-missing-field-initializers > /dev/null
# Without the tests of base, which look at what lies behind the structs.
tests=(sizes_test plan_test sampler_test sampler_budget_test compat_test balance_test pack_test memory_model_test memory_max_batch_test steps_test stream_test group_test group_padding_test)
ninja -C "$scratch/later" --quiet "${tests[@]}"
for test in "${tests[@]}"; do
  check "$test of today, the library of tomorrow" env LD_LIBRARY_PATH="$grown" "$programs/$test"
  check "$test of tomorrow, the library of today" env LD_LIBRARY_PATH="$libdir" "$scratch/later/$test"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
