#!/usr/bin/env bash
# Writes the binary interface of a release, for baseline.sh: release.sh VERSION PREFIX [FOLDER [TEST...]].
# Writes to FOLDER (by default tests/abi/VERSION) what run.sh compares with: libsab.abi, the stable declarations (sab_cdef.h),
# and the C test programs (TEST..., by default all that can run with another library).
# PREFIX is an installation of a build with SAB_BUILD_TESTS.
set -euo pipefail
version=$1 prefix=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
. "$here/abi.sh"
out=${3:-$here/$version}
tests=("${@:4}")
[ ! -e "$out" ] || { echo "$out exists: the interface of a release does not change" >&2 && exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
made=$scratch/made # so that a failure leaves no half of it
mkdir "$made"
dump "$prefix" "$made/libsab.abi"
/usr/bin/python3 -B "$here/stable.py" "$here/../.." > "$made/sab_cdef.h"
cmake -S "$here/../c" -B "$scratch/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_SKIP_RPATH=ON \
  -DCMAKE_C_FLAGS="-ffile-prefix-map=$(realpath "$here/../..")=." > /dev/null
ninja -C "$scratch/build" --quiet "${tests[@]}"
if [ ${#tests[@]} -eq 0 ]; then # without those that need a server, load libraries of this build, or read its headers
  mapfile -t tests < <(cd "$scratch/build" && find . -maxdepth 1 -name '*_test' ! -name cache_redis_test ! -name base_embedding_test \
    ! -name allocations_test ! -name base_throws_test ! -name base_no_exceptions_test -printf '%f\n' | sort)
fi
mkdir "$scratch/stripped"
for test in "${tests[@]}"; do strip --remove-section=.comment -o "$scratch/stripped/$test" "$scratch/build/$test"; done
tar -C "$scratch/stripped" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cJf "$made/programs-$(uname -m).tar.xz" "${tests[@]}"
mkdir -p "$(dirname "$out")"
mv "$made" "$out"
