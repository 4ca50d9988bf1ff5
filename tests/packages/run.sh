#!/usr/bin/env bash
# Builds the Debian packages of what is committed here in a clean chroot of each suite, checks them
# with lintian, and tests them installed in a fresh one:
# run.sh SCRATCH [SUITE...], by root; bookworm and trixie by default. The packages lie in SCRATCH/SUITE-packages.
set -euo pipefail
. "$(dirname "$0")/chroots.sh"
shift
[ $# -gt 0 ] || set -- bookworm trixie
version=$(cd "$repo" && dpkg-parsechangelog -S Version)
upstream=${version%-*}

packages() { # packages SUITE: builds them
  local root=$scratch/$1-build packages=$scratch/$1-packages
  fresh_chroot "$1" "$root" || return 1
  mkdir -p "$root/build"
  git -C "$repo" archive --prefix="libsab-$upstream/" HEAD ':!debian' | gzip -n > "$root/build/libsab_$upstream.orig.tar.gz"
  tar -C "$root/build" -xf "$root/build/libsab_$upstream.orig.tar.gz"
  git -C "$repo" archive HEAD debian | tar -C "$root/build/libsab-$upstream" -x
  install_in "$root" build-essential ccache lintian || return 1
  in_chroot "$root" sh -c "cd /build/libsab-$upstream && apt-get build-dep -qq . && CMAKE_CXX_COMPILER_LAUNCHER=ccache dpkg-buildpackage -us -uc" || return 1
  rm -rf "$packages"
  mkdir "$packages"
  find "$root/build" -maxdepth 1 -type f -exec cp {} "$packages/" \;
}

only_the_libraries_it_names() { # only_the_libraries_it_names SUITE
  local depends
  depends=$(dpkg-deb -f "$scratch/$1-packages/libsab0_${version}_"*.deb Depends)
  echo "libsab0 depends on: $depends"
  ! grep -Evx '(libc6|libgcc-s1|libstdc\+\+6|libisal2|libsimdjson[0-9]+|libzstd1|liblmdb0)( \(.*\))?' <<< "${depends//, /$'\n'}"
}

installed() { # installed SUITE: the tests of debian/tests
  local root=$scratch/$1-test
  fresh_chroot "$1" "$root" || return 1
  mkdir "$root/packages"
  cp "$scratch/$1-packages"/*.* "$root/packages/"
  install_in "$root" autopkgtest || return 1
  in_chroot "$root" sh -c 'autopkgtest /packages/*.deb /packages/*.dsc -- null'
}

for suite in "$@"; do
  before=$failed
  check "$suite: build" packages "$suite"
  [ "$failed" -eq "$before" ] || continue
  # These are no uploads to Debian, so no bug asks for them.
  check "$suite: lintian" in_chroot "$scratch/$suite-build" sh -c 'cd /build && lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs *.changes'
  check "$suite: what libsab0 needs" only_the_libraries_it_names "$suite"
  check "$suite: installed" installed "$suite"
done
summary
