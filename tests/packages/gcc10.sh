#!/usr/bin/env bash
# Whether g++ 10, which builds the wheels of a release in Debian 11, accepts src: gcc10.sh SCRATCH, on
# x86-64. Debian 12 has no g++ 10: the compiler comes from the mirror into SCRATCH and is not installed.
# Only the syntax is checked, each room as one source; the headers of the C library are this machine's.
set -euo pipefail
repo=$(cd "$(dirname "$0")/../.." && pwd)
. "$repo/cmake/setup.sh"
need_packages curl g++ libxxhash-dev libeigen3-dev libisal-dev libsimdjson-dev libzstd-dev liblmdb-dev
mirror=$(debian_mirror)
[ -n "$mirror" ] || { echo "no Debian source in /etc/apt" >&2 && exit 1; }
mkdir -p "$1/generated/base"
scratch=$(realpath "$1")
export scratch

# fetch PACKAGE SHA256
fetch() {
  local file=$scratch/$1_10.2.1-6_amd64.deb
  if [ ! -f "$file" ]; then
    curl -sSfL -o "$file.new" "${mirror%/}/pool/main/g/gcc-10/${file##*/}"
    sha256sum --quiet -c <<< "$2  $file.new"
    dpkg-deb -x "$file.new" "$scratch/gcc"
    mv "$file.new" "$file"
  fi
}
fetch g++-10 d25a7566c15c63c56eb34fa98e0663805ceb7cfd8054c2b6ae3f09be6982671c
fetch libgcc-10-dev 3b711374092b84e732c4e73cf33e02cff02e34a5f105eb6467de8d9038e4cd9d
fetch libstdc++-10-dev 20b1f56863dcc5f187d6cb53b2aa6149bd013be4ec67e10c2c31a22fda619a01

cd "$repo"
sed 's/@[A-Z_]*@/0/' src/base/version.h.in > "$scratch/generated/base/version.h"
room() { # room FOLDER: all its sources for Linux
  find "$1" -maxdepth 1 -name '*.cpp' ! -name '*_windows.cpp' -printf '#include "%p"\n' | sort |
    "$scratch/gcc/usr/bin/g++-10" -x c++ -std=c++20 -fno-rtti -fsyntax-only -fno-use-linker-plugin -Iinclude -Isrc -I"$scratch/generated" -isystem /usr/include/eigen3 -
}
export -f room
printf '%s\0' src/*/ | xargs -0 -P 2 -I {} bash -c 'room {}'
