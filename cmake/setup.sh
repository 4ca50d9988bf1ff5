# Functions for the scripts of this repository, which source it.

# Installs the Debian packages that are missing; says in one line which, where that fails.
need_packages() {
  local missing=()
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q "install ok installed" || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  local sudo=() said
  [ "$(id -u)" -eq 0 ] || sudo=(sudo)
  echo "installing: ${missing[*]}" >&2
  said=$({ "${sudo[@]}" apt-get update -qq &&
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } 2>&1) ||
    { echo "missing: ${missing[*]} (apt-get: ${said##*$'\n'})" >&2 && return 1; }
}

# The mirror of Debian that this machine installs from, by sources of either form; nothing where
# there is none.
debian_mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2> /dev/null | sed 's/#.*//' | grep -oE 'https?://[^ ]*/debian/?( |$)' | head -n 1 | tr -d ' ' || true
}

# A virtual environment over the system's Python, so that Debian's torch and numpy are seen.
make_venv() {
  [ -x "$1/bin/pip" ] || /usr/bin/python3 -m venv --system-site-packages "$1"
}

# The same source is compiled once for several builds, wherever the checkout lies.
use_ccache() {
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
}

# build DIRECTORY [CMAKE OPTION...]: configures and builds the checkout in the current folder.
build() {
  local directory=$1
  shift
  cmake -S . -B "$directory" -G Ninja "$@" > /dev/null
  ninja -C "$directory" --quiet
}

# test_build DIRECTORY [CTEST OPTION...]: runs the tests of a build; one that hangs fails. The words
# of $SAB_TEST_CTEST are further options.
test_build() {
  local more
  read -ra more <<< "${SAB_TEST_CTEST:-}"
  (cd "$1" && ctest --output-on-failure --parallel 2 --timeout 900 "${@:2}" "${more[@]}")
}

# libdir_of PREFIX: the folder of the installed library.
libdir_of() {
  dirname "$(find "$1" -name libsab.so | head -n 1)"
}

# check NAME COMMAND...: runs the command and counts it; prints its output and NAME when it failed.
# summary: prints the counts, and fails if any failed.
passed=0 failed=0
check() {
  local name=$1 output
  shift
  if output=$("$@" 2>&1); then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf '%s\nFAILED %s\n' "$(tail -n 40 <<< "$output")" "$name"
  fi
}
summary() {
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
}
