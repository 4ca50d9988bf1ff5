#!/usr/bin/env bash
# Shows on a GPU what libsab promises there. No network is needed.
#   tests/gpu/run.sh [OPTION...] [PART...]
# Parts: epochs guard budget compiled peaks models faults small native jax; by default all in this
# order, in at most 25 minutes; the first four need at most 9. The part again repeats in 3 minutes
# what is noisy of epochs, if another run has the same machine.
#   --wheels FOLDER   installs the wheels of the folder into build/gpu/site first: libsab's and,
#                     where Python lacks it, cffi's. Without it Python must have both
#   --results FOLDER  JSON of each part; by default $OUT, or else build/gpu
#   --seconds N       time for each part, instead of its own
#   --dry-run         every part on the CPU, with small numbers; SAB_TORCH_LIBRARY must name the
#                     LibTorch component for the torch that is installed
# PYTHON names the interpreter (python3). It needs torch and numpy. The part native also needs cmake
# and a C++ compiler. Parts whose tools are missing say so.
# Exit status: 0 no target was missed; 1 a target was missed; 2 a part failed; 3 no GPU.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
results=${OUT:-$root/build/gpu}
wheels='' options=() parts=()
while [ $# -gt 0 ]; do
  case $1 in
    --wheels) wheels=$2 && shift ;;
    --results) results=$2 && shift ;;
    --seconds) options+=(--seconds "$2") && shift ;;
    --dry-run) options+=(--dry-run) ;;
    epochs | guard | budget | compiled | peaks | models | faults | small | native | jax | again) parts+=("$1") ;;
    *) sed -n '2,15p' "$0" && exit 2 ;;
  esac
  shift
done
[ ${#parts[@]} -gt 0 ] || parts=(epochs guard budget compiled peaks models faults small native jax)
if ! mkdir -p "$results" || ! touch "$results/written"; then
  echo "$results: JSON cannot be written there: see --results" >&2
  exit 2
fi
rm -f "$results/written"

if [ -n "$wheels" ]; then
  site=$root/build/gpu/site
  "$python" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade \
    --target "$site" "$wheels"/*.whl || exit 2
  export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
fi
if ! "$python" -c 'import torch, sab'; then
  echo "$python needs torch, libsab and cffi: see --wheels" >&2
  exit 2
fi

export PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
worst=0 summary=()
for part in "${parts[@]}"; do
  file=$part own=()
  case $part in
    jax) file=shapes ;; # a file jax.py would hide the package
    again) file=epochs part=epochs_again own=(--again --seconds 170) ;;
  esac
  rm -f "$results/$part.json"       # of an earlier run
  begin=$SECONDS
  seconds=$((1500 - SECONDS < 480 ? 1500 - SECONDS : 480))
  timeout --kill-after=10 $((seconds > 1 ? seconds : 1)) \
    "$python" "$root/tests/gpu/$file.py" --results "$results" ${own[@]+"${own[@]}"} \
    ${options[@]+"${options[@]}"}
  status=$?
  case $status in
    0) outcome='all targets met' ;;
    3) outcome='no GPU' ;;
    4) outcome='MISSED A TARGET' status=1 ;;
    5) outcome='met, some left out' status=0 ;;
    124 | 137) outcome='STOPPED' status=2 ;;
    *) outcome='FAILED' status=2 ;;
  esac
  [ "$status" -le "$worst" ] || worst=$status
  summary+=("$(printf '%-13s%-20s%5d s' "$part" "$outcome" $((SECONDS - begin)))")
  echo
done
printf '%s\n' "${summary[@]}"
echo "JSON: $results"
exit "$worst"
