#!/usr/bin/env bash
# Checks that programs of earlier and of later releases run with this library: run.sh PREFIX PROGRAMS SCRATCH.
# PREFIX is an installation of a build with SAB_BUILD_TESTS, PROGRAMS the folder with its C tests.
# docs/internals/abi.md has the rules. Prints "N passed, N failed".
set -euo pipefail
prefix=$(realpath "$1") programs=$(realpath "$2") scratch=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/abi.sh"
. "$here/../../cmake/setup.sh"
rm -rf "$scratch" && mkdir -p "$scratch"
scratch=$(realpath "$scratch")
libdir=$(libdir_of "$prefix")
python() { /usr/bin/python3 -B "$@"; }
found() { # found COMMAND...: the command must end with status 1; 2 would be a fault of the test
  local status=0
  "$@" || status=$?
  [ "$status" -eq 1 ]
}
same() { abidiff --suppressions "$here/allowed.suppr" --no-added-syms "$@"; }
symbols() { grep -oE "elf-symbol name='sab_[a-z0-9_]+' version='$2'" "$1" | sort; } # symbols FILE NODE
same_symbols() { diff <(symbols "$1" "$3") <(symbols "$2" "$3"); }

compare_with() { # compare_with RELEASE FOLDER: this library with what release.sh wrote
  local release=$1 folder=$2 programs_then unpacked program
  check "abidiff against $release" same "$folder/libsab.abi" "$scratch/now.abi"
  check "declarations of $release" python "$here/compare.py" "$folder/sab_cdef.h" "$prefix/share/libsab/sab_cdef.h"
  check "functions of SAB_$release" same_symbols "$folder/libsab.abi" "$scratch/now.abi" "SAB_$release"
  programs_then=$folder/programs-$(uname -m).tar.xz
  if [ -e "$programs_then" ]; then
    unpacked=$(mktemp -d -p "$scratch")
    tar -C "$unpacked" -xJf "$programs_then"
    for program in "$unpacked"/*; do check "$(basename "$program") of $release" env LD_LIBRARY_PATH="$libdir" "$program"; done
  else
    echo "no programs of $release for $(uname -m): skipped"
  fi
}

changed_header() { # changed_header HEADER SED_SCRIPT: whether the declarations still agree with the rehearsal's after that change
  rm -rf "$scratch/changed" && mkdir "$scratch/changed"
  cp -r "$here/../../include" "$scratch/changed"
  sed -i -E "$2" "$scratch/changed/include/sab/$1"
  if cmp -s "$here/../../include/sab/$1" "$scratch/changed/include/sab/$1"; then echo "$1: $2 changes nothing" && return 2; fi
  python "$here/stable.py" "$scratch/changed" > "$scratch/changed/sab_cdef.h" || return 2
  python "$here/compare.py" "$scratch/rehearsal/sab_cdef.h" "$scratch/changed/sab_cdef.h"
}
without() { # without LIBRARY_CHANGE: whether abidiff agrees after that change of what the library exports
  sed "$1" "$scratch/now.abi" > "$scratch/changed.abi"
  if cmp -s "$scratch/now.abi" "$scratch/changed.abi"; then echo "$1 changes nothing" && return 2; fi
  same "$scratch/rehearsal/libsab.abi" "$scratch/changed.abi" || return 1
}

# The scripts themselves, so that they work when a release needs them: they find no difference from a baseline of this build, and find each change.
rehearse() {
  "$here/release.sh" rehearsal "$prefix" "$scratch/rehearsal" plan_test
  compare_with 0.1 "$scratch/rehearsal"
  check "a lost function is found" found without '/elf-symbol name=.sab_plan_new./d'
  check "a lost parameter is found" found without "/name='sab_sampler_at'/,/<\/function-decl>/ { /<parameter [^>]*name='position'/d }"
  check "a function that was added is accepted" changed_header sampler.h 's/^SAB_API void sab_sampler_free/SAB_API void sab_sampler_more(int32_t a) SAB_NOEXCEPT;\n&/'
  check "a field at the end is accepted" changed_header sampler.h 's/^\} sab_sampler_options;/uint64_t more;\n&/'
  check "a field in the middle is found" found changed_header sampler.h 's/^ +uint64_t rank;/uint64_t more;\n&/'
  check "a field of another type is found" found changed_header sampler.h 's/int64_t bucket;/int32_t bucket;/'
  check "a renamed function is found" found changed_header sampler.h 's/sab_sampler_free/sab_sampler_release/'
  check "another value is found" found changed_header base.h 's/SAB_END 1/SAB_END 2/'
}

dump "$prefix" "$scratch/now.abi"
releases=0
for folder in "$here"/[0-9]*/; do
  [ ! -d "$folder" ] || { releases=$((releases + 1)) && compare_with "$(basename "$folder")" "$folder"; }
done
[ "$releases" -gt 0 ] || echo "no release yet: no baseline to compare with"
rehearse
check "structs of other sizes" python "$here/struct_sizes.py" "$libdir/libsab.so" "$programs" "$scratch/struct_sizes"
summary
