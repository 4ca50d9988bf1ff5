#!/usr/bin/env bash
# Builds the fuzz targets with clang and runs each: run.sh SCRATCH SECONDS. A finding is left in SCRATCH and fails the run.
set -euo pipefail
scratch=$1 seconds=$2
here=$(cd "$(dirname "$0")" && pwd)
cmake -S "$here" -B "$scratch" -G Ninja -DCMAKE_CXX_COMPILER="${FUZZ_CXX:-clang++}" > /dev/null
ninja -C "$scratch" --quiet
cd "$scratch"
passed=0
for target in state plan_file npy options plan memory_model stream_state packing partition group; do
  mkdir -p "corpus_$target"
  "./fuzz_$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=600 -print_final_stats=0 -verbosity=0 "corpus_$target" 2> "$target.log" ||
    { tail -30 "$target.log"; echo "$passed passed, 1 failed"; exit 1; }
  passed=$((passed + 1))
done
echo "$passed passed, 0 failed"
