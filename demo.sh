#!/usr/bin/env bash
# Installs what is missing (Debian), builds libsab, compares batches on WordNet's glosses, and trains
# a small model with both kinds.
set -euo pipefail
cd "$(dirname "$0")"
. cmake/setup.sh
need_packages g++ cmake ninja-build libxxhash-dev libeigen3-dev libisal-dev libsimdjson-dev libzstd-dev liblmdb-dev \
  python3-venv python3-dev python3-numpy python3-torch wordnet-base
make_venv build/venv
echo "building libsab for Python, which takes a few minutes"
# A unity build takes less time.
build/venv/bin/pip install -q --config-settings=cmake.define.CMAKE_UNITY_BUILD=ON -c bindings/python/constraints.txt ./bindings/python

build/venv/bin/python examples/python/wordnet.py > build/glosses.txt
build/venv/bin/sab compare build/glosses.txt --words --budget 1024
echo
build/venv/bin/python examples/python/train_glosses.py --glosses 6000 --seeds 3 "$@"
