#!/usr/bin/env bash
# Builds the Debian packages of what is committed here in a clean chroot of each suite, checks them with lintian, and tests them installed in a fresh one:
# run.sh SCRATCH [SUITE...], by root. The packages lie in SCRATCH/SUITE-packages.
set -euo pipefail
repo=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mkdir -p "$1" && cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- bookworm trixie
. "$repo/tests/packages/chroots.sh"
version=$(cd "$repo" && dpkg-parsechangelog -S Version)
upstream=${version%-*}
passed=0 failed=0
check() { # check NAME COMMAND...
  local name=$1
  shift
  echo "-- $name"
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED $name"; fi
}

build() { # build SUITE
  local root=$scratch/$1-build packages=$scratch/$1-packages
  fresh_chroot "$1" "$root"
  mkdir -p "$root/build" "$scratch/ccache-$1" "$root/ccache"
  git -C "$repo" archive --prefix="libsab-$upstream/" HEAD ':!debian' | gzip -n > "$root/build/libsab_$upstream.orig.tar.gz"
  tar -C "$root/build" -xf "$root/build/libsab_$upstream.orig.tar.gz"
  git -C "$repo" archive HEAD debian | tar -C "$root/build/libsab-$upstream" -x
  cp -a "$scratch/ccache-$1/." "$root/ccache/"
  in_chroot "$root" apt-get install -qq build-essential ccache lintian > "$packages.log"
  local built=yes
  in_chroot "$root" sh -c "cd /build/libsab-$upstream && apt-get build-dep -qq . && CMAKE_CXX_COMPILER_LAUNCHER=ccache dpkg-buildpackage -us -uc" >> "$packages.log" 2>&1 || built=no
  cp -a "$root/ccache/." "$scratch/ccache-$1/"
  [ $built = yes ] || { tail -n 40 "$packages.log"; return 1; }
  rm -rf "$packages"
  mkdir "$packages"
  find "$root/build" -maxdepth 1 -type f -exec cp {} "$packages/" \;
}

only_the_libraries_it_names() { # only_the_libraries_it_names SUITE
  local depends
  depends=$(dpkg-deb -f "$scratch/$1-packages/libsab0_${version}_"*.deb Depends)
  echo "libsab0 depends on: $depends"
  ! grep -Evx '(libc6|libgcc-s1|libstdc\+\+6|libisal2|libzstd1|liblmdb0)( \(.*\))?' <<< "${depends//, /$'\n'}"
}

installed() { # installed SUITE: the tests of debian/tests
  local root=$scratch/$1-test
  fresh_chroot "$1" "$root"
  mkdir "$root/packages"
  cp "$scratch/$1-packages"/*.* "$root/packages/"
  in_chroot "$root" apt-get install -qq autopkgtest > "$root/packages/autopkgtest.log"
  in_chroot "$root" sh -c 'autopkgtest /packages/*.deb /packages/*.dsc -- null' || return 1
}

for suite in "$@"; do
  check "$suite: build" build "$suite"
  # These are no uploads to Debian, so no bug asks for them.
  check "$suite: lintian" in_chroot "$scratch/$suite-build" sh -c 'cd /build && lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs *.changes'
  check "$suite: what libsab0 needs" only_the_libraries_it_names "$suite"
  check "$suite: installed" installed "$suite"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
