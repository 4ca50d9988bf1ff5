#!/usr/bin/env bash
# Builds the library with SAB_PLANNER_ONLY and checks what it needs, how large it is, and
# what is installed: planner.sh SCRATCH. Prints "N passed, N failed".
set -euo pipefail
repo=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mkdir -p "$1" && cd "$1" && pwd)
prefix=$scratch/prefix
largest=520000 # bytes without symbols
passed=0 failed=0
check() { # check NAME COMMAND...
  local name=$1
  shift
  if "$@" > "$scratch/log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED $name"
    tail -20 "$scratch/log"
  fi
}


rm -rf "$prefix"
cmake -S "$repo" -B "$scratch/build" -G Ninja -DSAB_BUILD_TESTS=ON -DSAB_PLANNER_ONLY=ON > /dev/null
ninja -C "$scratch/build" --quiet
cmake --install "$scratch/build" --prefix "$prefix" > /dev/null
library=$(find "$prefix" -name libsab.so)
libdir=$(dirname "$library")
include=$prefix/include
export LD_LIBRARY_PATH=$libdir PKG_CONFIG_PATH=$libdir/pkgconfig

needs_the_c_and_cpp_runtime_only() {
  ! readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -Ev '^(libc|libm|libstdc\+\+|libgcc_s|ld-linux-[a-z0-9_-]+)\.so\.[0-9]+$'
}
is_small() {
  strip -o "$scratch/stripped" "$library"
  echo "$(stat -c %s "$scratch/stripped") bytes without symbols, at most $largest"
  [ "$(stat -c %s "$scratch/stripped")" -le $largest ]
}
# The functions that the installed headers declare.
declared() {
  cat "$include"/sab/*.h | tr '\n' ' ' | grep -oE 'SAB_API[A-Z_]* [^(;]*sab_[a-z0-9_]+\(' |
    sed -E 's/.*(sab_[a-z0-9_]+)\($/\1/' | sort
}
exports_what_the_headers_declare() {
  diff <(declared) <(nm -D --defined-only "$library" | sed -nE 's/.* T (sab_\w+)@.*/\1/p' | sort)
}
declarations_agree() {
  diff <(declared) <(grep -oE '^[a-z].*\bsab_[a-z0-9_]+\(' "$prefix/share/libsab/sab_cdef.h" |
    grep -v '^typedef' | sed -E 's/.*\b(sab_[a-z0-9_]+)\($/\1/' | sort)
}
descriptions_agree() {
  diff <(declared) <(python3 -c '
import json, sys
headers = json.load(open(sys.argv[1]))["headers"]
print(*sorted(each["name"] for header in headers for each in header.get("functions", [])), sep="\n")
' "$prefix/share/libsab/sab_abi.json")
}
has_its_headers_only() {
  diff <(printf '%s.h\n' arrow base cost features plan ranks sampler sizes) <(ls "$include/sab")
}
header_compiles() { # header_compiles COMPILER FLAG... HEADER
  local compiler=$1
  shift
  echo "#include <${*: -1}>" | "$compiler" "${@:1:$#-1}" -Wall -Wextra -Wpedantic -Werror \
    -fsyntax-only "-I$include" -
}
runs_with() { # runs_with OUTPUT COMPILER_FLAG...
  local output=$1
  shift
  cc -std=c11 "$repo/examples/c/first.c" "$@" -o "$output" && "$output" > /dev/null
}
# A word of pkg-config's output is a flag.
flags() {
  pkg-config "$@" sab
}
runs() {
  local words
  read -ra words <<< "$(flags --cflags --libs)"
  runs_with "$scratch/first" "${words[@]}"
}
runs_static() {
  local words
  read -ra words <<< "$(flags --static --cflags --libs | sed 's/-lsab/-l:libsab.a/')"
  LD_LIBRARY_PATH='' runs_with "$scratch/first_static" "${words[@]}"
}
found_by_cmake() {
  mkdir -p "$scratch/user"
  cat > "$scratch/user/CMakeLists.txt" << END
cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES C CXX)
find_package(sab REQUIRED)
foreach(library sab sab_static)
  add_executable(with_\${library} $repo/examples/c/first.c)
  target_link_libraries(with_\${library} PRIVATE sab::\${library})
endforeach()
END
  cmake -S "$scratch/user" -B "$scratch/user/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" &&
    ninja -C "$scratch/user/build" && "$scratch/user/build/with_sab" &&
    "$scratch/user/build/with_sab_static"
}

check "needed libraries" needs_the_c_and_cpp_runtime_only
check "size" is_small
check "exported functions" exports_what_the_headers_declare
check "sab_cdef.h" declarations_agree
check "sab_abi.json" descriptions_agree
check "headers" has_its_headers_only
check "sab.h in C" header_compiles cc -std=c11 -x c sab.h
check "sab.hpp" header_compiles c++ -std=c++17 -x c++ sab.hpp
check "a program, by pkg-config" runs
check "a program with libsab.a, by pkg-config" runs_static
check "programs, by CMake" found_by_cmake
check "tests" ctest --test-dir "$scratch/build" -LE slow --output-on-failure
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
