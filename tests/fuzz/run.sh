#!/usr/bin/env bash
# Builds the fuzz targets with clang's libFuzzer and runs each, from its corpus on: run.sh SCRATCH
# SECONDS [TARGET...]. A finding is left in SCRATCH and fails the run. So are inputs that reach more
# of the code: a run goes on from those of the run before. corpus.py chooses the corpora from them.
set -euo pipefail
scratch=$1 seconds=$2
here=$(cd "$(dirname "$0")" && pwd)
cmake -S "$here" -B "$scratch" -G Ninja -DCMAKE_CXX_COMPILER="${FUZZ_CXX:-clang++}" > /dev/null
ninja -C "$scratch" --quiet
cd "$scratch"
read -ra targets <<< "${*:3}"
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(sed -n 's/^set(targets \(.*\))$/\1/p' "$here/CMakeLists.txt" | tr ' ' '\n')
fuzz() { # fuzz TARGET
  mkdir -p "corpus_$1" "$here/corpus/$1"
  "./fuzz_$1" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=600 \
    -print_final_stats=0 -verbosity=0 "corpus_$1" "$here/corpus/$1" 2> "$1.log" && return
  tail -30 "$1.log"
  touch "$1.failed"
}
export -f fuzz
export seconds here
rm -f ./*.failed
# as many at once as there are cores
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
failed=$(find . -maxdepth 1 -name '*.failed' | wc -l)
echo "$((${#targets[@]} - failed)) passed, $failed failed"
[ "$failed" = 0 ]
