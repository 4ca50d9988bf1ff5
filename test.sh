#!/usr/bin/env bash
# Installs what is missing (Debian) and runs every test. `test.sh quick` leaves out sanitizers, fuzzers and the generated Rust declarations.
set -euo pipefail
cd "$(dirname "$0")"
. cmake/setup.sh
mode=${1:-all}
fuzz_seconds=$([ "${CI:-}" = true ] && echo 30 || echo 10)
packages=(g++ cmake ninja-build pkg-config binutils libxxhash-dev libeigen3-dev libisal-dev libzstd-dev liblmdb-dev libhiredis-dev redis-server libgtest-dev python3-venv python3-dev python3-numpy python3-torch libtorch-dev wordnet-base)
command -v cargo > /dev/null || packages+=(cargo-web rustc-web)
[ "$mode" = quick ] || packages+=(clang libclang-rt-14-dev libclang-14-dev)
need_packages "${packages[@]}"
mkdir -p build
step() { echo; echo "== $*"; }

build() { # build DIRECTORY [CMAKE OPTION...]
  local directory=$1
  shift
  cmake -S . -B "$directory" -G Ninja -DSAB_BUILD_TESTS=ON "$@" > /dev/null
  ninja -C "$directory" --quiet
}

step "unit tests and golden vectors, LibTorch of Debian"
build build/release -DSAB_BUILD_TORCH=ON
(cd build/release && ctest --output-on-failure)
cmake --install build/release --prefix "$PWD/build/prefix" > /dev/null
libdir=$(dirname "$(find "$PWD/build/prefix" -name libsab.so)")
export SAB_TORCH_LIBRARY=$libdir/libsab_torch.so.0

step "C tests against the installed library"
tests/c/run.sh "$PWD/build/prefix" "$PWD/build/c"
/usr/bin/python3 tests/abi/check.py build/prefix

step "Python"
make_venv build/venv
build/venv/bin/pip install -q -c bindings/python/constraints.txt "./bindings/python[cli]" -r tests/python/requirements.txt
build/venv/bin/python -m pytest -q -p no:cacheprovider tests/python

step "an epoch on a device of 128 MiB that is nearly full"
(cd examples/python && ../../build/venv/bin/python train_full.py --mebibytes 128 --glosses 2000)

step "Rust"
export CARGO_TARGET_DIR=$PWD/build/cargo
(cd bindings/rust && PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir cargo test --locked --quiet)

if [ "$mode" != quick ]; then
  step "LibTorch of PyPI"
  wheels=(torch==2.15.0 nvidia-cuda-cupti==13.5.25 nvidia-cuda-runtime==13.5.37)
  [ -d build/torch/torch/lib ] || build/venv/bin/pip install -q --no-deps --target build/torch "${wheels[@]}"
  build build/wheel -DSAB_BUILD_TORCH=ON -DSAB_TORCH_ROOT="$PWD/build/torch/torch" -DSAB_TORCH_CUDA_FOLDER="$PWD/build/torch/nvidia/cu13/lib"
  (cd build/wheel && ctest --output-on-failure -R torch)

  for sanitizers in address,undefined thread; do
    step "with -fsanitize=$sanitizers"
    directory=build/${sanitizers%,*}
    build "$directory" -DSAB_SANITIZE=$sanitizers -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1 -DNDEBUG"
    (cd "$directory" && ctest --output-on-failure)
    cmake --install "$directory" --prefix "$PWD/$directory/prefix" > /dev/null
    tests/c/run.sh "$PWD/$directory/prefix" "$PWD/$directory/c" $sanitizers
  done
  step "fuzzers, $fuzz_seconds s each"
  tests/fuzz/run.sh "$PWD/build/fuzz" "$fuzz_seconds"
  step "generated Rust declarations"
  bindgen=$(sed -n 's/^version=//p' bindings/rust/generate-bindings.sh)
  [ -x build/tools/bin/bindgen ] || cargo install --quiet --locked --root build/tools --version "$bindgen" bindgen-cli
  BINDGEN=$PWD/build/tools/bin/bindgen bindings/rust/generate-bindings.sh --check
fi

step "all passed"
