#!/usr/bin/env bash
# Builds and runs the C tests against an installed libsab: run.sh PREFIX SCRATCH [SANITIZERS]. Found both ways, tested both ways.
set -euo pipefail
prefix=$1 scratch=$2 sanitizers=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
libdir=$(dirname "$(find "$prefix" -name libsab.so | head -1)")
export LD_LIBRARY_PATH=$libdir PKG_CONFIG_PATH=$libdir/pkgconfig
mkdir -p "$scratch"
# A locale that writes 1,5, where the system can make one: messages and files must not care.
if [ ! -d "$scratch/locale/de_DE.UTF-8" ]; then
  mkdir -p "$scratch/locale"
  localedef -i de_DE -f UTF-8 "$scratch/locale/de_DE.UTF-8" > /dev/null 2>&1 || true
fi
export LOCPATH=$scratch/locale

passed=0 failed=0
ways=(find_package pkg_config)
[ -z "$sanitizers" ] || ways=(find_package) # the same programs twice would find nothing more
for found_by in "${ways[@]}"; do
  cmake -S "$here" -B "$scratch/$found_by" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DSAB_SANITIZE="$sanitizers" \
    -DUSE_PKG_CONFIG=$([ $found_by = pkg_config ] && echo ON || echo OFF) > /dev/null
  # Found the other way it is the same library: a program of each kind is enough.
  only=$([ "$found_by" = pkg_config ] && echo 'sab_test|example_first' || echo '.*')
  ninja -C "$scratch/$found_by" --quiet $([ "$found_by" = pkg_config ] && echo sab_test first)
  log=$scratch/$found_by.log
  (cd "$scratch/$found_by" && ctest --verbose --parallel 2 -R "^($only)\$" > "$log") || { failed=$((failed + 1)) && cat "$log"; }
  passed=$((passed + $(awk '/^[0-9]+: [0-9]+ passed, / { sum += $2 } END { print sum + 0 }' "$log")))
done
if [ -z "$sanitizers" ]; then # and without the shared library
  read -ra flags <<< "$(pkg-config --static --cflags --libs sab | sed 's/-lsab/-l:libsab.a/')"
  cc -std=c11 "$here/../../examples/c/first.c" "${flags[@]}" -o "$scratch/first_static"
  LD_LIBRARY_PATH='' "$scratch/first_static" > /dev/null && passed=$((passed + 1)) || failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
