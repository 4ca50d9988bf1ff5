#!/usr/bin/env bash
# Makes the files of a release from a git tag: release.sh TAG [--tested FILE] [STEP...]. They lie in
# dist/TAG. FILE is what `./test.sh everything` wrote for the commit of the tag; without it, what
# `git notes --ref=everything show TAG^{commit}` prints. A commit where it did not pass is refused.
#   source  the source, reproducible
#   sdist   Python's source distribution, reproducible
#   wheels  for x86-64 and aarch64, by root in chroots
#   crates  sab-sys and libsab, as `cargo publish --dry-run` packs and builds them
#   julia   the package of Julia
#   debs    packages for Debian 12 and 13, by root in chroots, tested there
#   docs    the site, with all code of the documentation run
#   sbom    what the files made so far contain and need (SPDX)
# Without STEP all of them. A step that is repeated replaces its files; the checksums are written
# again each time. TAG is v and the version of CMakeLists.txt; v0.1.0-rc1 is a rehearsal of v0.1.0.
set -euo pipefail
cd "$(dirname "$0")"
. cmake/setup.sh
umask 022 # so that nothing depends on it
[ $# -gt 0 ] || { sed -n '2,15p' "$0" && exit 2; }
tag=$1 tested=''
shift
if [ "${1:-}" = --tested ]; then tested=$2 && shift 2; fi
[ $# -gt 0 ] || set -- source sdist wheels crates julia debs docs sbom
for step in "$@"; do
  case $step in source | sdist | wheels | crates | julia | debs | docs | sbom) ;; *) echo "STEP = \"$step\": unknown" >&2 && exit 2 ;; esac
done
need_packages git python3-venv
git rev-parse --quiet --verify "refs/tags/$tag^{commit}" > /dev/null || { echo "TAG = \"$tag\": there is no such tag" >&2 && exit 2; }
commit=$(git rev-parse "$tag^{commit}")
found=$(if [ -n "$tested" ]; then cat "$tested"; else git notes --ref=everything show "$commit" 2> /dev/null || true; fi)
if ! grep -qxF "commit: $commit" <<< "$found" || ! grep -qxF 'failed: none' <<< "$found"; then
  echo "TAG = \"$tag\": ./test.sh everything has not passed on its commit $commit: name its file with --tested FILE, or attach it: git notes --ref=everything add -F FILE $commit" >&2
  exit 2
fi
mkdir -p build/release "dist/$tag"
chroots=$PWD/build/release/chroots checkout=$PWD/build/release/$tag output=$PWD/dist/$tag
rm -rf "$checkout"
git -c advice.detachedHead=false clone --quiet --shared --branch "$tag" . "$checkout"
cd "$checkout"
python3 -B tests/abi/versions.py
version=$(python3 -B tests/abi/versions.py --print)
[[ $tag == "v$version" || $tag == "v$version"-* ]] || { echo "TAG = \"$tag\": the version of CMakeLists.txt is $version" >&2 && exit 2; }
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

folder() { # folder NAME: makes it anew in the output
  rm -rf "${output:?}/$1"
  mkdir -p "$output/$1"
}
pack() { # pack FILE TAR_OPTION...: the same files give the same bytes; a failure leaves no half of it
  tar -c --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner "${@:2}" | gzip -9n > build/archive
  mv build/archive "$1"
}

source_() {
  git -c tar.umask=0022 archive --format=tar --prefix="libsab-$version/" HEAD | gzip -9n > build/archive
  mv build/archive "$output/libsab-$version-source.tar.gz"
}

sdist() {
  python3 -m venv build/tools
  build/tools/bin/pip install -q build==1.2.2
  mkdir -p "$output/python"
  rm -f "$output"/python/*.tar.gz
  printf '%s\n' scikit-build-core==0.10.7 cffi==1.17.1 > build/pins
  PIP_CONSTRAINT=$PWD/build/pins build/tools/bin/python -m build --sdist --outdir "$output/python" bindings/python > /dev/null
}

wheels() {
  mkdir -p "$output/python"
  rm -f "$output"/python/*.whl
  tests/packages/wheels.sh "$chroots" "$output/python" x86_64 aarch64
}

crates() { # libsab is built with the sab-sys that is packed beside it
  command -v cargo > /dev/null || need_packages cargo-web rustc-web
  need_packages g++ ccache cmake ninja-build libxxhash-dev libeigen3-dev libisal-dev libsimdjson-dev libzstd-dev liblmdb-dev
  use_ccache
  folder rust
  (cd bindings/rust && CARGO_TARGET_DIR=$checkout/build/cargo cargo publish --quiet --dry-run --locked --package sab-sys --package libsab)
  local crate
  for crate in sab-sys libsab; do # where they lie depends on the version of cargo
    cp "$(find build/cargo/package -name "$crate-$version.crate" -print -quit)" "$output/rust"
  done
}

julia() {
  folder julia
  cp LICENSE bindings/julia
  pack "$output/julia/SAB-$version.tar.gz" --transform="s,^\\.,SAB-$version," -C bindings/julia .
}

debs() {
  local suite
  tests/packages/run.sh "$chroots" bookworm trixie
  folder debian
  for suite in bookworm trixie; do cp -r "$chroots/$suite-packages" "$output/debian/$suite"; done
}

docs() {
  ./test.sh documentation
  pack "$output/libsab-$version-documentation.tar.gz" --transform="s,^\\.,libsab-$version-documentation," -C build/site .
}

sbom() {
  python3 -B tools/sbom.py "$checkout" "$output" > "$checkout/build/sbom.json"
  mv "$checkout/build/sbom.json" "$output/libsab-$version.spdx.json"
}

mkdir -p build
for step in "$@"; do
  echo "== $step"
  if [ "$step" = source ]; then source_; else "$step"; fi
done
cd "$output"
rm -f SHA256SUMS
find . -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum > "$checkout/build/sums"
mv "$checkout/build/sums" SHA256SUMS
echo "dist/$tag: $(wc -l < SHA256SUMS) files, $(du -sh . | cut -f1)"
