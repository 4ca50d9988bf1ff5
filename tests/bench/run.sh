#!/usr/bin/env bash
# Builds and runs the benches of the core and prints their tables in Markdown; bench.sh compares
# libsab with its peers. run.sh [COPIES]: lengths drawn COPIES times over (9: ten million, 86: a
# hundred million), of the core alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
. cmake/setup.sh
copies=${1:-1}
need_packages g++ cmake ninja-build libxxhash-dev libeigen3-dev libisal-dev libsimdjson-dev libzstd-dev liblmdb-dev \
  redis-server python3-venv python3-dev python3-numpy python3-torch libtorch-dev wordnet-base
need_packages gcc-12-locales gimp-data git # message catalogues for plans.py
make_venv build/venv-bench
python=build/venv-bench/bin/python
cmake -S . -B build/bench -G Ninja -DSAB_BUILD_BENCH=ON -DSAB_BUILD_TORCH=ON \
  -DSAB_BUILD_TESTS=OFF > /dev/null
ninja -C build/bench --quiet
$python tests/bench/lengths.py build/lengths.npy "$copies"

echo "| the core, $(nproc) cores | value | aim |"
echo "|---|---:|---:|"
build/bench/tests/bench/bench_core build/lengths.npy | $python -c '
import json, sys
for line in sys.stdin:
    row = json.loads(line)
    value, limit, unit = row["value"], row["limit"], row["unit"]
    aim = "" if not limit else f"≥ {limit:g}" if unit == "at least" else f"≤ {limit:g} {unit}"
    unit = "" if unit == "at least" else unit
    print("|", row["figure"], "|", f"{value:.4g}", unit, "|", aim, "|")'
echo
build/bench/tests/bench/bench_orders build 1e7 1e8
[ "$copies" = 1 ] || exit 0

$python -m pip install -q -c bindings/python/constraints.txt ./bindings/python
$python -m pip install -q --no-deps infinibatch==0.1.1 redis==5.2.1 async-timeout==5.0.1 hiredis==3.5.0 ||
  echo "(infinibatch and redis could not be installed)" >&2
echo
$python tests/bench/python_batch.py build/lengths.npy
echo
$python tests/bench/plans.py
echo
SAB_TORCH_LIBRARY=$(find "$PWD/build/bench" -name 'libsab_torch.so.0') $python tests/bench/memory.py
echo
$python tests/bench/streams.py build/bench/tests/bench/bench_streams
echo
$python tests/bench/packing.py build/bench/tests/bench/bench_packing
echo
$python tests/bench/partition.py
echo
$python tests/bench/context.py
echo
$python tests/bench/thresholds.py build/lengths.npy
echo
$python tests/bench/groups.py
echo
$python tests/bench/fused.py
echo
$python tests/bench/cache.py build/bench/tests/bench/bench_cache
