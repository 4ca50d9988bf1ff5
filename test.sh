#!/usr/bin/env bash
# Installs what is missing (Debian) and runs the tests. Minutes are those on two cores.
#   test.sh                the tests of the library and of each language; at most 12 minutes
#   test.sh quick          also without the programs of other releases
#   test.sh checks         lint, sanitizers, fuzz corpora, documentation, frameworks; 18 minutes
#   test.sh everything     all of these, and what takes long; some hours. Goes on after a failure,
#                          and writes what it found to a file, which release.sh wants
#   test.sh lint           formatters, linters and type checkers
#   test.sh documentation  the site in build/site; runs the code of all pages
#   test.sh STEP...        single steps, after what they need; `test.sh steps` lists them
# CI runs test.sh and test.sh checks.
set -euo pipefail
cd "$(dirname "$0")"
. cmake/setup.sh

# ---- The steps of each mode. Those with & run, one after the other, beside those behind them. ----

default=('&fetch_julia' generated '&python julia' core installed symbols interface packages rust ffi)
checks=('&torch_of_pypi' '&fetch_julia' '&lint' '&frameworks' sanitizers documentation)
long=(statistics allocations reads coverage threads fuzzers rust_memory rust_declarations burn planner gcc10 readers
  languages '&gpu_dry_run' referee)

# What is made before a step, once.
declare -A needs=(
  [library]='' [core]=library [installed]=library [symbols]=library [interface]=library [packages]=wheel
  [python]=wheel [rust]=library [ffi]=wheel [julia]='library fetch_julia'
  [frameworks]=torch_of_pypi [documentation]='torch_of_pypi fetch_julia'
  [statistics]=library [allocations]=library [reads]=torch_of_pypi [rust_memory]=library [burn]=library [readers]=wheel [languages]=library [gpu_dry_run]=torch_of_pypi
  [referee]=wheel [wheel]=library [torch_of_pypi]=wheel)

# Debian's packages for each.
rust_itself=$(command -v cargo > /dev/null || echo cargo-web rustc-web)
go_itself=$(command -v go > /dev/null || echo golang-go)
compiled='g++ ccache cmake ninja-build libxxhash-dev libeigen3-dev libisal-dev libsimdjson-dev libzstd-dev liblmdb-dev'
tested="$compiled libgtest-dev locales redis-server"
declare -A debian=(
  [library]="$tested pkg-config python3-torch libtorch-dev" [wheel]='python3-venv python3-dev'
  [symbols]=binutils [interface]=abigail-tools [packages]="git $rust_itself"
  [python]='redis-server python3-numpy python3-torch wordnet-base' [rust]="$rust_itself redis-server"
  [ffi]="luajit ruby php-cli $go_itself" [languages]='mono-mcs r-base-core make' [sanitizers]=$tested [frameworks]=redis-server
  [documentation]="$rust_itself doxygen luajit redis-server wordnet-base"
  [coverage]="$tested python3-venv" [threads]=$tested [fuzzers]="$compiled clang libclang-rt-14-dev"
  [rust_memory]="$rust_itself valgrind libc6-dbg" [burn]=$rust_itself
  [rust_declarations]="$rust_itself clang libclang-14-dev" [planner]=$tested
  [readers]='clang swig' [referee]='python3-numpy python3-torch wordnet-base')

prefix=$PWD/build/prefix libdir=$PWD/build/prefix/lib
export CARGO_TARGET_DIR=$PWD/build/cargo SAB_TORCH_LIBRARY=$libdir/libsab_torch.so.0
unset PYTHONDONTWRITEBYTECODE # else each process that imports a framework compiles its sources for some seconds

# ---- What steps need ----

library() { # in build/release, and installed in build/prefix; in fewer sources, which halves the time
  build build/release -DSAB_BUILD_TESTS=ON -DSAB_BUILD_TORCH=ON -DCMAKE_UNITY_BUILD=ON
  cmake --install build/release --prefix "$prefix" > /dev/null
}

wheel() { # in build/wheels, and installed in build/venv with what tests need
  make_venv build/venv
  local newer=none
  [ ! -e build/wheels/made ] || newer=$(find bindings/python "$prefix" -newer build/wheels/made -type f ! -name '*.pyc' -print -quit)
  [ -n "$newer" ] || return 0
  rm -rf build/wheels
  bindings/python/build-wheel.sh build/wheels build/prefix
  build/venv/bin/pip install -q --force-reinstall --no-deps build/wheels/*.whl
  build/venv/bin/pip install -q -c bindings/python/constraints.txt "$(echo build/wheels/*.whl)[cli]" -r tests/python/requirements.txt -r tests/ffi/requirements.txt
  touch build/wheels/made
}

fetch_julia() { cmake/install-julia.sh build/julia; }

fetch_frameworks() { # of PyPI, and what the site needs
  cat tests/frameworks/requirements.txt docs/requirements.txt > build/wanted.txt
  ! cmp -s build/wanted.txt build/frameworks/installed.txt || return 0
  rm -rf build/frameworks
  /usr/bin/python3 -m venv build/frameworks
  build/frameworks/bin/pip install -q --no-compile --no-deps -r tests/frameworks/requirements.txt
  build/frameworks/bin/pip install -q --no-compile -c tests/frameworks/requirements.txt -r docs/requirements.txt
  mv build/wanted.txt build/frameworks/installed.txt
}

torch_of_pypi() { # the frameworks and the wheel in build/frameworks, and the LibTorch component for the torch there
  fetch_frameworks
  build/frameworks/bin/pip install -q --force-reinstall --no-deps build/wheels/*.whl
  local packages
  packages=$(echo "$PWD"/build/frameworks/lib/python3*/site-packages)
  cmake -S tests/torch -B build/wheel -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON "-Dsab_DIR=$libdir/cmake/sab" \
    "-DSAB_TORCH_ROOT=$packages/torch" "-DSAB_TORCH_CUDA_FOLDER=$packages/nvidia/cu13/lib" > /dev/null
  ninja -C build/wheel --quiet
}

torch_library() { # the LibTorch component for the torch of build/frameworks
  find "$PWD/build/wheel" -name libsab_torch.so.0
}

# ---- Steps ----

generated() { # files that repeat the headers
  python3 -B tests/abi/tool.py
  python3 -B tests/abi/places.py
  python3 -B tests/abi/versions.py
  python3 -B tools/abi.py --check
}

core() { # unit and C tests, golden vectors, LibTorch of Debian
  test_build build/release -E ^unit_statistics
}

installed() { # programs that find the installed library
  tests/c/run.sh "$prefix" build/c
}

symbols() { # the installed library against its headers
  /usr/bin/python3 tests/abi/check.py build/prefix
  /usr/bin/python3 tests/abi/description.py build/prefix
  /usr/bin/python3 tests/abi/results.py build/prefix
}

interface() { # programs of earlier and later releases
  tests/abi/run.sh build/prefix build/release/tests/c build/abi
}

packages() { # what a release has in it
  tests/packages/sources.sh build/wheels/*.tar.gz build/sources
  tests/packages/release.sh build/release-test build/wheels/*.whl
}

python() {
  build/venv/bin/python -m pytest -q -p no:cacheprovider tests/python
  echo "-- an epoch on a device of 128 MiB that is nearly full"
  (cd examples/python && ../../build/venv/bin/python train_full.py --mebibytes 128 --glosses 2000)
}

rust() {
  (cd bindings/rust && PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir cargo test --locked --quiet --features system,arrow)
}

ffi() { # LuaJIT, Node, Go, Ruby and PHP
  PATH=$PWD/build/venv/bin:$PATH tests/ffi/run.sh build/prefix
}

languages() { # C#, R, and Java where there is one of version 22 or later
  tests/ffi/run.sh build/prefix csharp r java
}

julia() {
  JULIA=$PWD/build/julia/julia tests/julia/run.sh "$prefix"
}

lint() { tests/lint.sh; }

# sanitized DIRECTORY SANITIZERS [CTEST OPTION...]: a room of the core is one source.
sanitized() {
  local flags='-Og -g1 -DXXH_NO_INLINE_HINTS=1' # xxHash asks for inlining that -Og cannot do
  build "$1" -DSAB_BUILD_TESTS=ON -DSAB_SANITIZE="$2" -DCMAKE_UNITY_BUILD=ON -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_CXX_FLAGS_DEBUG="$flags -DNDEBUG" -DCMAKE_C_FLAGS_DEBUG="$flags"
  test_build "$1" "${@:3}"
}

sanitizers() { # address and undefined behaviour: unit and C tests, golden vectors, fuzz corpora
  sanitized build/address address,undefined -E ^unit_statistics # they run nothing that others do not
}

threads() { # the thread sanitizer: tests with threads
  sanitized build/thread thread -L threads
}

coverage() { # of src, by unit and C tests and golden vectors
  tests/coverage.sh build/coverage
}

frameworks() { # current versions of PyPI, and their LibTorch
  test_build build/wheel
  local tests=(build/frameworks/bin/python -m pytest -q -p no:cacheprovider)
  SAB_TORCH_LIBRARY=$(torch_library) "${tests[@]}" tests/frameworks tests/python/test_{loader,reading,sources}.py --ignore-glob '*/test_jax.py' --ignore-glob '*/test_grain.py' --ignore-glob '*/test_ray_train.py'
  # JAX and Ray have threads, which processes that are forked beside them may wait for.
  "${tests[@]}" tests/frameworks/test_{jax,grain}.py
  "${tests[@]}" tests/python/test_ray.py tests/frameworks/test_ray_train.py
}

documentation() {
  PATH=$PWD/build/julia:$PATH SAB_PYTHON_TORCH_LIBRARY=$(torch_library) docs/build.sh build/prefix build/frameworks build/site
}

statistics() { # of orders, over many keys
  test_build build/release -R ^unit_statistics
}

allocations() { # every one fails, not only every fourth
  (cd build/release && SAB_TEST_ALLOCATIONS_EVERY=1 ctest --output-on-failure --timeout 1800 -R '^allocations_test$')
}

reads() { # of each format, a hundred times and in fifty processes
  SAB_TEST_READS=100 build/frameworks/bin/python -m pytest -q -p no:cacheprovider tests/python/test_reading.py
}

fuzzers() { # 30 seconds each; what they find new is kept in build/fuzz
  tests/fuzz/run.sh "$PWD/build/fuzz" 30
}

rust_memory() { # under valgrind, and under Miri what needs no library
  local host
  host=$(rustc -vV | sed -n 's/^host: //p' | tr a-z- A-Z_)
  (cd bindings/rust && env PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir" \
    "CARGO_TARGET_${host}_RUNNER=valgrind -q --error-exitcode=1 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite" \
    cargo test --locked --quiet --features system,arrow --test ownership --test closures --test arrow -- --test-threads=1)
  bindings/rust/miri.sh
}

rust_declarations() { # bindgen's are those that are committed
  local version
  version=$(sed -n 's/^RUST_BINDGEN = "\([0-9.]*\)".*/\1/p' tools/abi.py)
  [ -x build/tools/bin/bindgen ] || cargo install --quiet --locked --root build/tools --version "$version" bindgen-cli
  BINDGEN=$PWD/build/tools/bin/bindgen python3 -B tools/abi.py --check
}

burn() { # the program of a recipe
  (cd docs/code/burn && SAB_NO_BUNDLED=1 PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir cargo run --quiet --locked --bin train_burn)
}

planner() { # a build without the optional parts
  tests/packages/planner.sh build/planner
}

gcc10() { # the syntax by g++ 10
  tests/packages/gcc10.sh build/gcc10
}

readers() { # SWIG, ctypesgen, cffi and clang read the headers
  build/venv/bin/python tests/abi/readers.py build/prefix build/readers
}

gpu_dry_run() { # the script for GPUs, on a CPU
  PYTHON=build/frameworks/bin/python SAB_TORCH_LIBRARY=$(torch_library) tests/gpu/run.sh --dry-run
}

referee() { # fails when the counts of libsab's batches are not what it promises
  local long
  long=$(wc -l bench/peers/[!_]*.py | awk '$2 != "total" && $1 > 40')
  [ -z "$long" ] || { echo "longer than 40 lines: $long" && return 1; }
  SAB_WHEEL=$(echo "$PWD"/build/wheels/*.whl) ./bench.sh --quick > build/referee.log
}

# ---- How they are run ----

declare -A running=() has_run=() # NAME: its process, or "yes"
times=() failed=()

before() { # before NAME: what it needs, the first first
  local each
  for each in ${needs[$1]:-}; do
    before "$each"
    echo "$each"
  done
}

install_packages() { # install_packages NAME...: what they and those before them need, at once
  local name each packages=() all
  read -ra all <<< "${*#&}"
  for name in "${all[@]}"; do
    for each in $(before "$name") "$name"; do
      read -ra each <<< "${debian[$each]:-}"
      packages+=("${each[@]}")
    done
  done
  need_packages "${packages[@]}"
}

processor() { # processor seconds of the processes that have ended
  local fields
  read -ra fields < /proc/$$/stat
  echo $(((fields[15] + fields[16]) / 100))
}

took() { # took NAME SECOND PROCESSOR_SECOND: when it began
  times+=("$(printf '%5d s %5d s of a processor  %s' $((SECONDS - $2)) $(($(processor) - $3)) "$1")")
}

has_failed() { # has_failed NAME: the end, but for everything, which wants to know what else fails
  failed+=("$1")
  echo "FAILED $1"
  [ "$mode" = everything ] || exit 1
}

run() { # run NAME: a step, or what steps need
  [ -z "${has_run[$1]:-}" ] || return 0
  [ -z "${running[$1]:-}" ] || { finish "$1" && return; }
  local begun=$SECONDS processor_then status
  processor_then=$(processor)
  printf '\n== %s (%d min)\n' "$1" $((SECONDS / 60))
  set +e # a condition would make the step go on after an error
  (set -e; "$1")
  status=$?
  set -e
  has_run[$1]=yes
  took "$1" "$begun" "$processor_then"
  [ $status -eq 0 ] || has_failed "$1"
}

start() { # start 'NAME...': one after the other, beside what comes next
  local each names
  read -ra names <<< "$1"
  [ -z "${has_run[${names[0]}]:-}" ] || return 0
  {
    local result=0 status
    set +e # a condition would make a step go on after an error
    for each in "${names[@]}"; do
      (set -e; "$each")
      status=$?
      [ $status -eq 0 ] || { echo "FAILED $each" && result=1; }
    done
    exit $result
  } > "build/${1// /_}.log" 2>&1 &
  running[$1]=$!
}

finish() { # finish 'NAME...': waits, and prints what they printed
  local status=0 begun=$SECONDS processor_then each
  processor_then=$(processor)
  printf '\n== %s, which ran beside (%d min)\n' "$1" $((SECONDS / 60))
  wait "${running[$1]}" || status=$?
  cat "build/${1// /_}.log"
  unset "running[$1]"
  for each in $1; do has_run[$each]=yes; done
  took "$1, waited for" "$begun" "$processor_then"
  [ $status -eq 0 ] || has_failed "$1"
}

run_all() { # run_all NAME...: after what each needs
  local name each of
  for name in "$@"; do
    for of in ${name#&}; do
      for each in $(before "$of"); do run "$each"; done
    done
    case $name in '&'*) start "${name:1}" ;; *) run "$name" ;; esac
  done
  for name in "${!running[@]}"; do finish "$name"; done
}

write_stamp() { # what everything found, for release.sh
  local stamp commit
  commit=$(git rev-parse HEAD)
  stamp=$PWD/build/everything-${commit:0:12}.txt
  {
    echo "commit: $commit$([ -z "$(git status --porcelain)" ] || echo ', with changes')"
    echo "date: $(date --utc +%FT%TZ)"
    echo "failed: ${failed[*]:-none}"
    sed -n 's/^lines: /coverage of lines: /p' build/coverage.txt 2> /dev/null || true
  } > "$stamp"
  echo "what it found: $stamp"
  cat "$stamp"
}

read -ra of_default <<< "${default[*]#&}"
read -ra of_checks <<< "${checks[*]#&}"
steps=("${of_default[@]}" "${of_checks[@]}" "${long[@]#&}")
mode=${1:-default} left_out=()
case "$*" in
  '') names=("${default[@]}") left_out=("${of_checks[@]}" "${long[@]#&}") ;;
  quick)
    for name in "${default[@]}"; do [ "$name" = interface ] || names+=("$name"); done
    left_out=(interface "${of_checks[@]}" "${long[@]#&}")
    ;;
  checks) names=("${checks[@]}") left_out=("${long[@]#&}") ;;
  everything) names=("${steps[@]}") ;;
  steps) printf '%s\n' "${steps[@]}" && exit ;;
  *)
    for name in "$@"; do
      [[ " ${steps[*]} ${!needs[*]} " == *" $name "* ]] || { sed -n '2,13p' "$0" && exit 2; }
    done
    names=("$@")
    ;;
esac

mkdir -p build
install_packages "${names[@]}"
use_ccache
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT # what runs beside ends with the script
if [ "$mode" = everything ]; then
  run_all "${default[@]}"
  run_all "${checks[@]}"
  run_all "${long[@]}"
  write_stamp
else
  run_all "${names[@]}"
fi
result='all passed'
[ ${#failed[@]} -eq 0 ] || result="failed: ${failed[*]}"
printf '\n== %s (%d min)\n' "$result" $((SECONDS / 60))
printf '%s\n' "${times[@]}"
[ ${#left_out[@]} -eq 0 ] || echo "left out: ${left_out[*]}"
[ ${#failed[@]} -eq 0 ]
