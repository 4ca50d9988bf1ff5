#!/usr/bin/env bash
# Whether release.sh makes the same files of a tag twice, and a valid bill of materials:
# release.sh SCRATCH WHEEL. Tests what is committed. Prints "N passed, N failed".
set -euo pipefail
repo=$(cd "$(dirname "$0")/../.." && pwd)
. "$repo/cmake/setup.sh"
wheel=$(realpath "$2")
rm -rf "$1" && mkdir -p "$1"
scratch=$(cd "$1" && pwd)
tag=v$(python3 -B "$repo/tests/abi/versions.py" --print)

release() { # release NAME UMASK: in a checkout of that name
  git clone --quiet --shared "$repo" "$scratch/$1"
  git -C "$scratch/$1" tag --force "$tag" > /dev/null # of what is committed here, also after the release
  git -C "$scratch/$1" tag v0.0.0
  mkdir -p "$scratch/$1/dist/$tag/python"
  cp "$wheel" "$scratch/$1/dist/$tag/python"
  (umask "$2" && "$scratch/$1/release.sh" "$tag" --tested "$scratch/passed" source sdist julia sbom)
}
tested() { # tested COMMIT FAILED: as `test.sh everything` writes it
  printf '%s\n' "commit: $1" "date: 2026-11-27T12:00:00Z" "failed: $2"
}
same_files() { diff -r "$scratch/one/dist" "$scratch/the_other/dist"; }
has_files() { # has_files NUMBER: with their checksums
  [ "$(wc -l < "$scratch/one/dist/$tag/SHA256SUMS")" -eq "$1" ] && (cd "$scratch/one/dist/$tag" && sha256sum --quiet -c SHA256SUMS)
}
valid_bill() {
  make_venv "$scratch/venv"
  "$scratch/venv/bin/pip" install -q spdx-tools==0.8.3 && "$scratch/venv/bin/pyspdxtools" -i "$scratch/one/dist/$tag"/*.spdx.json
}
bill_names() { # bill_names NAME...: what is inside of the wheel, and what it needs
  for name in "$@"; do grep -q "\"name\": \"$name\"" "$scratch/one/dist/$tag"/*.spdx.json || { echo "$name is missing" && return 1; }; done
}
with_note() { # a release of what a note says has passed
  git -C "$scratch/one" -c user.name=test -c user.email=test@localhost notes --ref=everything add -f -F "$scratch/passed" "$commit" && "$scratch/one/release.sh" "$tag" julia
}
refused() { # refused MESSAGE ARGUMENT...: by release.sh
  ! "$scratch/one/release.sh" "${@:2}" > "$scratch/said" 2>&1 || return 1
  cat "$scratch/said"
  grep -qF "$1" "$scratch/said"
}

commit=$(git -C "$repo" rev-parse HEAD)
tested "$commit" none > "$scratch/passed"
tested "$commit" threads > "$scratch/failed"
tested "$(git -C "$repo" hash-object /dev/null)" none > "$scratch/other"
check "a release" release one 022
check "a release elsewhere" release the_other 077
check "the same files" same_files
check "files and checksums" has_files 5
check "the bill of materials is SPDX" valid_bill
check "the bill of materials is complete" bill_names "$(basename "$wheel")" debian/libisal2 debian/libzstd1 debian/liblmdb0 debian/libeigen3-dev debian/libxxhash-dev numpy cffi
check "an unknown tag is refused" refused 'there is no such tag' v0.0.1
check "a tag of another version is refused" refused "the version of CMakeLists.txt is ${tag#v}" v0.0.0 --tested "$scratch/passed"
check "a commit without tests is refused" refused 'has not passed' "$tag" julia
check "a commit with failures is refused" refused 'has not passed' "$tag" --tested "$scratch/failed" julia
check "tests of another commit are refused" refused 'has not passed' "$tag" --tested "$scratch/other" julia
check "a note says what has passed" with_note
check "an unknown step is refused" refused 'STEP = "wheel": unknown' "$tag" wheel
summary
