#!/usr/bin/env bash
# Installs what is missing (Debian) and runs every test. `test.sh quick` leaves out sanitizers, fuzzers, the documentation, what generates declarations and the libraries of other times.
set -euo pipefail
cd "$(dirname "$0")"
. cmake/setup.sh
mode=${1:-all}
fuzz_seconds=$([ "${CI:-}" = true ] && echo 20 || echo 10)
packages=(g++ ccache cmake ninja-build pkg-config binutils libxxhash-dev libeigen3-dev libisal-dev libzstd-dev liblmdb-dev redis-server libgtest-dev luajit
  python3-venv python3-dev python3-numpy python3-torch libtorch-dev wordnet-base)
command -v cargo > /dev/null || packages+=(cargo-web rustc-web)
[ "$mode" = quick ] || packages+=(clang libclang-rt-14-dev libclang-14-dev abigail-tools swig doxygen valgrind libc6-dbg)
need_packages "${packages[@]}"
use_ccache
mkdir -p build
make_venv build/venv
step() { echo; echo "== $* ($((SECONDS / 60)) min)"; }

# What takes long to come is fetched while the compiler works.
cmake/install-julia.sh build/julia > build/julia.log 2>&1 &
julia=$!
if [ "$mode" != quick ] && [ ! -d build/torch/torch/lib ]; then
  build/venv/bin/pip install -q --no-deps --target build/torch torch==2.15.0 nvidia-cuda-cupti==13.5.25 nvidia-cuda-runtime==13.5.37 > build/torch.log 2>&1 &
  torch=$!
fi
fetched() { # fetched PROCESS LOG
  wait "$1" || { cat "$2" && exit 1; }
}

build() { # build DIRECTORY [CMAKE OPTION...]
  local directory=$1
  shift
  cmake -S . -B "$directory" -G Ninja -DSAB_BUILD_TESTS=ON "$@" > /dev/null
  ninja -C "$directory" --quiet
}

step "unit and C tests, golden vectors, LibTorch of Debian"
build build/release -DSAB_BUILD_TORCH=ON
(cd build/release && ctest --output-on-failure --parallel 2)
cmake --install build/release --prefix "$PWD/build/prefix" > /dev/null
libdir=$(dirname "$(find "$PWD/build/prefix" -name libsab.so)")
export SAB_TORCH_LIBRARY=$libdir/libsab_torch.so.0

step "C tests against the installed library"
tests/c/run.sh "$PWD/build/prefix" "$PWD/build/c"
/usr/bin/python3 tests/abi/check.py build/prefix

if [ "$mode" != quick ]; then
  step "programs of other releases"
  tests/abi/run.sh build/prefix build/c/find_package build/abi
fi

step "Python"
rm -rf build/wheels
bindings/python/build-wheel.sh build/wheels build/prefix
build/venv/bin/pip install -q --force-reinstall --no-deps build/wheels/*.whl
build/venv/bin/pip install -q -c bindings/python/constraints.txt "$(echo build/wheels/*.whl)[cli]" -r tests/python/requirements.txt -r tests/ffi/requirements.txt
build/venv/bin/python -m pytest -q -p no:cacheprovider tests/python

step "an epoch on a device of 128 MiB that is nearly full"
(cd examples/python && ../../build/venv/bin/python train_full.py --mebibytes 128 --glosses 2000)

step "Rust"
export CARGO_TARGET_DIR=$PWD/build/cargo
(cd bindings/rust && PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir cargo test --locked --quiet --features system)
tests/packages/sources.sh build/wheels/*.tar.gz build/sources
if [ "$mode" != quick ]; then
  step "Rust under valgrind, and under Miri what needs no library"
  host=$(rustc -vV | sed -n 's/^host: //p' | tr a-z- A-Z_)
  (cd bindings/rust && env PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir" \
    "CARGO_TARGET_${host}_RUNNER=valgrind -q --error-exitcode=1 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite" \
    cargo test --locked --quiet --features system --test ownership --test closures -- --test-threads=1)
  bindings/rust/miri.sh
fi

step "LuaJIT and Node"
PATH=$PWD/build/venv/bin:$PATH tests/ffi/run.sh build/prefix

step "Julia"
fetched "$julia" build/julia.log
build/venv/bin/python bindings/julia/generate_raw.py --check
JULIA=$PWD/build/julia/julia tests/julia/run.sh "$PWD/build/prefix"

if [ "$mode" != quick ]; then
  step "readers of the headers"
  build/venv/bin/python tests/abi/readers.py build/prefix build/readers

  step "documentation"
  [ -d build/recipes ] || build/venv/bin/pip install -q --no-deps --target build/recipes -r docs/recipes.txt
  PATH=$PWD/build/julia:$PATH PYTHONPATH=$PWD/build/recipes docs/build.sh build/prefix build/venv build/site

  step "LibTorch of PyPI"
  [ -z "${torch:-}" ] || fetched "$torch" build/torch.log
  build build/wheel -DSAB_BUILD_TORCH=ON -DSAB_TORCH_ROOT="$PWD/build/torch/torch" -DSAB_TORCH_CUDA_FOLDER="$PWD/build/torch/nvidia/cu13/lib"
  (cd build/wheel && ctest --output-on-failure -R torch)

  for sanitizers in address,undefined thread; do
    step "with -fsanitize=$sanitizers"
    directory=build/${sanitizers%,*}
    build "$directory" -DSAB_SANITIZE=$sanitizers -DCMAKE_UNITY_BUILD=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1 -DNDEBUG"
    (cd "$directory" && ctest --output-on-failure --parallel 2)
  done
  step "fuzzers, $fuzz_seconds s each"
  tests/fuzz/run.sh "$PWD/build/fuzz" "$fuzz_seconds"
  step "generated Rust declarations"
  bindgen=$(sed -n 's/^version=//p' bindings/rust/generate-bindings.sh)
  [ -x build/tools/bin/bindgen ] || cargo install --quiet --locked --root build/tools --version "$bindgen" bindgen-cli
  BINDGEN=$PWD/build/tools/bin/bindgen bindings/rust/generate-bindings.sh --check
fi

step "all passed"
