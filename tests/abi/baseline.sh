#!/usr/bin/env bash
# Sets the baseline of the binary interface from a release: baseline.sh TAG. Builds what the tag has
# and writes tests/abi/VERSION, such as tests/abi/0.1, which is then committed.
set -euo pipefail
cd "$(dirname "$0")/../.."
. cmake/setup.sh
[ $# -eq 1 ] || { sed -n '2,3p' "$0" && exit 2; }
git rev-parse --quiet --verify "refs/tags/$1^{commit}" > /dev/null || { echo "TAG = \"$1\": there is no such tag" >&2 && exit 2; }
need_packages git g++ ccache cmake ninja-build pkg-config abigail-tools libgtest-dev libxxhash-dev libeigen3-dev libisal-dev libsimdjson-dev libzstd-dev liblmdb-dev
use_ccache
checkout=$PWD/build/baseline
rm -rf "$checkout"
git -c advice.detachedHead=false clone --quiet --shared --branch "$1" . "$checkout"
version=$(python3 -B "$checkout/tests/abi/versions.py" --print)
[ "$1" = "v$version" ] || { echo "TAG = \"$1\": must be v$version, the version of CMakeLists.txt" >&2 && exit 2; }
cmake -S "$checkout" -B "$checkout/build/lib" -G Ninja -DSAB_BUILD_TESTS=ON > /dev/null
ninja -C "$checkout/build/lib" --quiet sab sab_static
cmake --install "$checkout/build/lib" --prefix "$checkout/build/prefix" > /dev/null
"$checkout/tests/abi/release.sh" "${version%.*}" "$checkout/build/prefix" "$PWD/tests/abi/${version%.*}"
