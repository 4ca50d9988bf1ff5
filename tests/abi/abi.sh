# Sourced by release.sh and run.sh: the binary interface of an installed library as XML. dump PREFIX FILE
dump() {
  local here library
  here=$(dirname "${BASH_SOURCE[0]}")
  library=$(readlink -f "$(find "$1" -name libsab.so)")
  abidw --suppressions "$here/private.suppr" --exported-interfaces-only --no-show-locs --no-comp-dir-path --no-corpus-path --out-file "$2" "$library"
  sed -i "s| path='[^']*/src/| path='src/|" "$2" # wherever it was built
  grep -q "<function-decl name='sab_plan_new'" "$2" || { echo "$library has no debug information: configure with -DSAB_BUILD_TESTS=ON" >&2 && return 1; }
}
