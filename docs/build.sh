#!/usr/bin/env bash
# Makes the site: docs/build.sh PREFIX VENV OUT
# PREFIX: an installed libsab with its LibTorch component.
# VENV: an environment of tests/frameworks/requirements.txt with the Python package.
# Needs doxygen, cargo and WordNet, and what the examples name; SAB_DOCS_PARTIAL=1 skips examples
# whose needs are missing. SAB_PYTHON_TORCH_LIBRARY names the LibTorch component for VENV's torch.
set -euo pipefail
prefix=$(realpath -e "$1") venv=$(realpath -e "$2") out=$(realpath -m "$3")
cd "$(dirname "$0")"
. ../cmake/setup.sh
libdir=$(libdir_of "$prefix")
export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir PATH=$venv/bin:$PATH
export SAB_LIBRARY=$libdir/libsab.so.0 SAB_TORCH_LIBRARY=$libdir/libsab_torch.so.0
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/generated/cargo} SAB_NO_BUNDLED=1
mkdir -p generated/extra "$out"

pip install -q -c ../tests/frameworks/requirements.txt -r requirements.txt
cp Doxyfile generated/Doxyfile
printf '%s\n' "INPUT = $PWD/../include" "OUTPUT_DIRECTORY = $PWD/generated/doxygen" >> generated/Doxyfile
doxygen generated/Doxyfile
(cd ../bindings/rust && RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps --locked --features arrow)
rm -rf generated/extra/rust
cp -r "$CARGO_TARGET_DIR/doc" generated/extra/rust
python run.py
mkdir -p generated/pictures
# Those of the pages are in pictures/.
SAB_TORCH_LIBRARY=${SAB_PYTHON_TORCH_LIBRARY:-$SAB_TORCH_LIBRARY} python pictures.py generated/pictures
python -m sphinx -q -W --keep-going -d generated/doctrees -b html . "$out"
