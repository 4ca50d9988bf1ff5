#!/usr/bin/env bash
# Installs what is missing (Debian) and runs the tests.
#   test.sh           at most 25 minutes on two cores; prints what it leaves out
#   test.sh quick     also without the checks of the binary interface
#   test.sh lint      formatters, linters and type checkers only
#   test.sh coverage  the address sanitizer and the coverage of src only
#   test.sh documentation  the site in build/site, and what it needs
#   CI=true test.sh   everything, in at most 45 minutes
set -euo pipefail
cd "$(dirname "$0")"
. cmake/setup.sh
mode=${1:-$([ "${CI:-}" = true ] && echo everything || echo default)}
case $mode in quick | default | everything | lint | coverage | documentation) ;; *) sed -n '2,8p' "$0" && exit 2 ;; esac
[ "$mode" != lint ] || exec tests/lint.sh
packages=(g++ ccache cmake ninja-build pkg-config binutils locales libxxhash-dev libeigen3-dev libisal-dev libsimdjson-dev libzstd-dev liblmdb-dev redis-server libgtest-dev
  python3-venv)
if [ "$mode" != coverage ]; then
  packages+=(luajit python3-dev python3-numpy python3-torch libtorch-dev wordnet-base)
  command -v cargo > /dev/null || packages+=(cargo-web rustc-web)
fi
case $mode in default | everything) packages+=(abigail-tools swig) ;; esac
case $mode in documentation | everything) packages+=(clang libclang-rt-14-dev libclang-14-dev doxygen valgrind libc6-dbg) ;; esac
need_packages "${packages[@]}"
use_ccache
mkdir -p build
make_venv build/venv
prefix=$PWD/build/prefix
export CARGO_TARGET_DIR=$PWD/build/cargo
times=() last='' begun=0
step() { # step NAME: begins a step, and notes how long the one before it took
  [ -z "$last" ] || times+=("$(printf '%4d s  %s' $((SECONDS - begun)) "$last")")
  last=$1 begun=$SECONDS
  [ -z "$1" ] || printf '\n== %s (%d min)\n' "$1" $((SECONDS / 60))
}
beside() { # beside FUNCTION: runs it in the background; joined() waits for it
  (set -e; "$1") > "build/$1.log" 2>&1 &
  declare -g "$1_process=$!"
}
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT # what runs beside ends with the script
joined() { # joined FUNCTION: waits, prints what it printed, fails if it failed
  local process=$1_process status=0
  wait "${!process}" || status=$?
  cat "build/$1.log"
  return $status
}

generated() {
  python3 -B tests/abi/tool.py
  python3 -B tests/abi/places.py
  python3 -B tests/abi/versions.py
  python3 -B tools/abi.py --check
}

core() {
  build build/release -DSAB_BUILD_TESTS=ON -DSAB_BUILD_TORCH=ON
  test_build build/release
  cmake --install build/release --prefix "$prefix" > /dev/null
}

interface() {
  /usr/bin/python3 tests/abi/check.py build/prefix
  [ "$mode" = quick ] || tests/abi/run.sh build/prefix build/c/find_package build/abi
}

wheel() {
  rm -rf build/wheels
  bindings/python/build-wheel.sh build/wheels build/prefix
  build/venv/bin/pip install -q --force-reinstall --no-deps build/wheels/*.whl
  build/venv/bin/pip install -q -c bindings/python/constraints.txt "$(echo build/wheels/*.whl)[cli]" -r tests/python/requirements.txt -r tests/ffi/requirements.txt
  tests/packages/sources.sh build/wheels/*.tar.gz build/sources
  tests/packages/release.sh build/release-test build/wheels/*.whl
}

python() {
  build/venv/bin/python -m pytest -q -p no:cacheprovider tests/python
  echo "-- an epoch on a device of 128 MiB that is nearly full"
  cd examples/python && ../../build/venv/bin/python train_full.py --mebibytes 128 --glosses 2000
}

rust() {
  (cd bindings/rust && PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir cargo test --locked --quiet --features system,arrow)
}

rust_memory() { # under valgrind, and under Miri what needs no library
  local host
  host=$(rustc -vV | sed -n 's/^host: //p' | tr a-z- A-Z_)
  (cd bindings/rust && env PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir" \
    "CARGO_TARGET_${host}_RUNNER=valgrind -q --error-exitcode=1 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite" \
    cargo test --locked --quiet --features system,arrow --test ownership --test closures --test arrow -- --test-threads=1)
  bindings/rust/miri.sh
}

rust_declarations() {
  local version
  version=$(sed -n 's/^RUST_BINDGEN = "\([0-9.]*\)".*/\1/p' tools/abi.py)
  [ -x build/tools/bin/bindgen ] || cargo install --quiet --locked --root build/tools --version "$version" bindgen-cli
  BINDGEN=$PWD/build/tools/bin/bindgen python3 -B tools/abi.py --check
}

fetch_julia() { cmake/install-julia.sh build/julia; }

julia() {
  JULIA=$PWD/build/julia/julia tests/julia/run.sh "$prefix"
}

documentation() {
  PATH=$PWD/build/julia:$PATH SAB_PYTHON_TORCH_LIBRARY=$(torch_library) docs/build.sh build/prefix build/frameworks build/site
}

gpu_dry_run() {
  PYTHON=build/frameworks/bin/python SAB_TORCH_LIBRARY=$(torch_library) tests/gpu/run.sh --dry-run
}

referee() { # fails when the counts of libsab's batches are not what it promises
  local long
  long=$(wc -l bench/peers/[!_]*.py | awk '$2 != "total" && $1 > 40')
  [ -z "$long" ] || { echo "longer than 40 lines: $long" && return 1; }
  SAB_WHEEL=$(echo "$PWD"/build/wheels/*.whl) ./bench.sh --quick > build/referee.log
}

fetch_frameworks() {
  cmp -s tests/frameworks/requirements.txt build/frameworks/installed.txt && return
  rm -rf build/frameworks
  /usr/bin/python3 -m venv build/frameworks
  build/frameworks/bin/pip install -q --no-deps -r tests/frameworks/requirements.txt
  cp tests/frameworks/requirements.txt build/frameworks/installed.txt
}

torch_of_pypi() {
  local packages
  packages=$(echo "$PWD"/build/frameworks/lib/python3*/site-packages)
  cmake -S . -B build/wheel -G Ninja -DSAB_BUILD_TESTS=ON -DSAB_BUILD_TORCH=ON -DSAB_TORCH_ROOT="$packages/torch" -DSAB_TORCH_CUDA_FOLDER="$packages/nvidia/cu13/lib" > /dev/null
  ninja -C build/wheel --quiet tests/torch/all torch_test sab_torch
  test_build build/wheel -R torch
}

torch_library() { # the LibTorch component for the torch of build/frameworks
  find "$PWD/build/wheel" -name libsab_torch.so.0
}

frameworks() {
  build/frameworks/bin/pip install -q --force-reinstall --no-deps build/wheels/*.whl
  local tests=(build/frameworks/bin/python -m pytest -q -p no:cacheprovider)
  SAB_TORCH_LIBRARY=$(torch_library) "${tests[@]}" tests/frameworks tests/python/test_{loader,reading,sources}.py --ignore-glob '*/test_jax.py' --ignore-glob '*/test_grain.py' --ignore-glob '*/test_ray_train.py'
  # JAX and Ray have threads, which processes that are forked beside them may wait for.
  "${tests[@]}" tests/frameworks/test_{jax,grain}.py
  "${tests[@]}" tests/python/test_ray.py tests/frameworks/test_ray_train.py
}

threads() {
  build build/thread -DSAB_BUILD_TESTS=ON -DSAB_SANITIZE=thread -DCMAKE_UNITY_BUILD=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1 -DNDEBUG"
  test_build build/thread -L threads
}

if [ "$mode" = coverage ]; then
  exec tests/coverage.sh build/address
fi
if [ "$mode" = documentation ]; then
  beside fetch_julia
  beside fetch_frameworks
  core
  libdir=$(libdir_of "$prefix")
  wheel
  joined fetch_frameworks
  build/frameworks/bin/pip install -q --force-reinstall --no-deps build/wheels/*.whl
  torch_of_pypi
  joined fetch_julia
  documentation
  exit
fi
if [ "$mode" = everything ]; then
  step "lint"
  tests/lint.sh
fi
step "files generated from the headers"
generated
beside fetch_julia
[ "$mode" != everything ] || beside fetch_frameworks

step "unit and C tests, golden vectors, LibTorch of Debian"
core
libdir=$(libdir_of "$prefix")
export SAB_TORCH_LIBRARY=$libdir/libsab_torch.so.0

step "C tests against the installed library"
tests/c/run.sh "$prefix" "$PWD/build/c"

step "binary interface"
interface

step "wheel"
wheel

# Most of Python's tests use one core.
beside python
step "Rust, beside Python"
rust
if [ "$mode" = everything ]; then
  step "Rust under valgrind and Miri, generated declarations"
  rust_memory
  rust_declarations
fi
step "LuaJIT and Node"
PATH=$PWD/build/venv/bin:$PATH tests/ffi/run.sh build/prefix
step "Julia"
joined fetch_julia
julia
if [ "$mode" = everything ]; then
  step "a build without the optional parts"
  tests/packages/planner.sh build/planner
  step "the syntax by g++ 10"
  tests/packages/gcc10.sh build/gcc10
fi
if [ "$mode" != quick ]; then
  step "readers of the headers"
  build/venv/bin/python tests/abi/readers.py build/prefix build/readers
fi
step "Python"
joined python

if [ "$mode" = everything ]; then
  step "with -fsanitize=address,undefined; coverage"
  tests/coverage.sh build/address
  step "with -fsanitize=thread, tests with threads"
  threads
  step "LibTorch of PyPI"
  joined fetch_frameworks
  torch_of_pypi
  step "frameworks"
  frameworks
  # Most of its examples use one core.
  beside documentation
  step "the script for GPUs, dry run, beside the documentation"
  gpu_dry_run
  step "the referee, quick"
  referee
  step "fuzzers, 10 s each"
  tests/fuzz/run.sh "$PWD/build/fuzz" 10
  step "documentation"
  joined documentation
fi
step ''
printf '\n== all passed (%d min)\n' $((SECONDS / 60))
printf '%s\n' "${times[@]}"
left_out=()
[ "$mode" != quick ] || left_out+=("programs of other releases" "readers of the headers")
[ "$mode" = everything ] || left_out+=("lint" "sanitizers and coverage" "a build without the optional parts" "the syntax by g++ 10" "documentation" "the script for GPUs" "the referee" "LibTorch of PyPI" "frameworks" "Rust under valgrind and Miri" "generated Rust declarations" "fuzzers")
[ ${#left_out[@]} -eq 0 ] || (IFS=';' && echo "left out (CI=true ./test.sh runs everything): ${left_out[*]}" | sed 's/;/, /g')
