#!/usr/bin/env bash
# Plants faults in a copy of the checkout, one at a time, and runs the step of test.sh that must
# catch each: planted.sh [NAME...], by default all. CONTRIBUTING.md has the list. The copy lies in
# build/planted, and is built once. Prints "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."
. cmake/setup.sh

names=()
declare -A step=() tests=() change=()
# fault NAME STEP TESTS FILE SED_SCRIPT [FILE SED_SCRIPT]...: TESTS are those of ctest that are run, of
# the steps that run it; '' for all.
fault() {
  names+=("$1")
  step[$1]=$2 tests[$1]=$3
  change[$1]=$(printf '%s\n' "${@:4}")
}

# The core.
fault tail_off_by_one core 'sampler_test' src/sampler/bucket_sequence.cpp \
  's/(const uint64_t tail = bucket.samples\(\) % bucket.batch_size);/\1 - (bucket.samples() % bucket.batch_size > 1);/'
fault other_order core 'golden_order' src/sampler/permutation.h 's/0xBF58476D1CE4E5B9u/0xBF58476D1CE4E5BBu/'
fault nan_cost core '^cost_test|balance_test' src/cost/cost.cpp 's/!\(cost >= 0 && std::isfinite\(cost\)\)/cost < 0/'
fault error_text core '^(plan|base)_' src/cost/cost.cpp 's/must be finite and not negative"/must be at least 0"/'
fault leak_on_error core '^allocations_test$' src/sampler/sampler.cpp \
  's/(auto\* const handle = new sab_sampler\{\{\}, )std::move\(sampler\),/Sampler* const held = sampler.release();\n    \1std::unique_ptr<Sampler>(held),/'
fault missing_unlock core '^cache_test$' src/cache/flights.h '/join\(/,/lock\(/ s/const std::scoped_lock lock\(mutex_\);/mutex_.lock();/'
fault half_changed core '^allocations_test$' src/sampler/cursor.cpp 's/^    OrderState order\{\};$/    ++changes_;\n    pass_ = Pass::ended;\n&/'
fault race_on_a_page threads 'plan' src/plan/pages.h \
  's/std::vector<std::atomic<uint64_t>> known_/std::vector<uint64_t> known_/; s/known_\[page \/ 64\].load\(std::memory_order_relaxed\)/known_[page \/ 64]/' \
  src/plan/pages.cpp 's/known_\[page \/ 64\].fetch_or\((.*), std::memory_order_relaxed\);/known_[page \/ 64] |= \1;/'
fault use_after_free_on_resume sanitizers '^sampler_test$' src/sampler/sampler_capi.cpp \
  's/\.restore\(\{static_cast<const std::byte\*>\(state\), size\}\);/.restore([\&] { const auto* from = static_cast<const std::byte*>(state); return std::span<const std::byte>(std::vector<std::byte>(from, from + size)); }());/'
fault read_behind_the_end sanitizers '^fuzz_' src/files/npy.cpp 's/(const std::size_t room = .* \/ item);/\1 + 1;/'

# The binary interface.
fault dropped_symbol generated '' src/libsab.map '/^    sab_next_batch;$/d'
fault field_in_the_middle generated '' include/sab/sampler.h 's/^    uint64_t rank;/    uint64_t more;\n&/'
fault stale_stub generated '' bindings/python/sab/_sab.pyi '/def sab_next_batch\(/d'
fault undocumented_parameter symbols '' include/sab/plan.h '0,/@param plan /s/@param plan /@note plan /'
fault unchecked_struct_size interface '' src/cache/cache_capi.cpp \
  '/check_result\(stats/d; s/write_result\(cache->impl.stats\(\), stats\);/write_result(cache->impl.stats(), (stats->struct_size = sizeof *stats, stats));/'
fault header_not_installed installed '' cmake/install.cmake 's/ PATTERN "\*\.hpp"//'
fault source_not_packed packages '' bindings/python/pyproject.toml 's/^sdist.exclude = \[/&"locator.cpp", /'

# Bindings.
fault default_in_python python '' bindings/python/sab/_samplers.py '/^class BucketSampler/,/^class Seq/ s/micro_batches: int = 1/micro_batches: int = 2/'
fault option_in_rust rust '' bindings/rust/libsab/src/sampler.rs 's/=> micro_batches = count;/=> world_size = count;/'
fault index_in_julia julia '' bindings/julia/src/samplers.jl 's/index >= 1 \? index - 1/index >= 1 ? index/'
fault second_pass_in_lua ffi '' examples/luajit/sab.lua '/sab.check\(lib.sab_sampler_begin\(sampler\)\)/d'
fault leak_in_rust rust_memory '' bindings/rust/libsab/src/raw.rs '/impl<T: \?Sized> Drop for Shared/,/^}/ s/drop\(unsafe \{ (.*) \}\);/std::mem::forget(unsafe { \1 });/'
fault tokens_in_transformers frameworks '' bindings/python/sab/transformers/_data.py 's/return sum\(len\(sample\[field\]\)/return 1 + sum(len(sample[field])/'

# What else is promised.
fault page_that_fails documentation '' docs/guide/resume.md 's/^smaller = sab.BucketSampler\(sizes, 2048\)/smaller = sab.BucketSampler(sizes, 4096)/'
fault untidy lint '' src/plan/pages.cpp 's/^    uint64_t checksum;$/    uint64_t checksum, unused = 0;/'
fault mixtures_in_a_planner planner '' src/plan/plan_handle.cpp 's/has_mixtures && //'
fault newer_than_gcc10 gcc10 '' src/stream/state.cpp 's/^    std::memcpy\(&value, &bits, sizeof value\);$/    value = std::bit_cast<double>(bits);/; s/^#include <cstring>/#include <bit>\n&/'

copy=$PWD/build/planted log=$PWD/build/planted.log

make_copy() { # the checkout as it is, with what is not committed
  [ -d "$copy/.git" ] || git clone --quiet --shared --no-checkout . "$copy"
  git -C "$copy" reset --quiet "$(git rev-parse HEAD)"
  # What an earlier copy has, and the checkout no longer has, would be compiled, too.
  find "$copy" -mindepth 1 -maxdepth 1 ! -name .git ! -name build -exec rm -rf {} +
  git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -c | tar -x -C "$copy"
}

apply() { # apply NAME: fails where the code has changed, so that there is nothing to plant
  local file script
  while read -r file && read -r script; do
    cp -p "$copy/$file" "$copy/$file.sound"
    # The script is one line: \n in it is a line feed.
    sed -i -E "$script" "$copy/$file"
    ! cmp -s "$copy/$file" "$copy/$file.sound" || { echo "$1 changes nothing in $file" && return 1; }
  done <<< "${change[$1]}"
}

take_away() {
  find "$copy" -name '*.sound' -not -path "$copy/build/*" | while read -r sound; do
    mv "$sound" "${sound%.sound}"
    touch "${sound%.sound}" # built again
  done
}

does_not_compile() { # a fault that the compiler finds is none, but where that is the test
  case $1 in planner | gcc10 | lint) return 1 ;; esac
  grep -qE '\.(cpp|h|c):[0-9]+:[0-9]+: (fatal )?error:' "$log"
}

is_caught() { # is_caught NAME
  apply "$1" || return 1
  rm -rf "$copy/build/prefix" # else what is not installed any more would still be there
  local status=0 of=${step[$1]} only=()
  [ -z "${tests[$1]}" ] || only=(-R "${tests[$1]}")
  (cd "$copy" && SAB_TEST_CTEST="--stop-on-failure --timeout 100 ${only[*]}" PYTEST_ADDOPTS=-x ./test.sh "$of") > "$log" 2>&1 || status=$?
  take_away
  if does_not_compile "$of"; then echo "does not compile" && return 1; fi
  # What the step needs has not failed: the step itself has.
  [ $status -ne 0 ] && grep -qx "FAILED $of" "$log"
}

if [ $# -gt 0 ]; then wanted=("$@"); else wanted=("${names[@]}"); fi
for name in "${wanted[@]}"; do [ -n "${step[$name]:-}" ] || { echo "NAME = \"$name\": is none of: ${names[*]}" >&2 && exit 2; }; done
make_copy
take_away
for name in "${wanted[@]}"; do
  if is_caught "$name"; then
    passed=$((passed + 1))
    echo "caught $name, by ${step[$name]}"
  else
    failed=$((failed + 1))
    echo "MISSED $name, by ${step[$name]}: $log.$name"
    [ ! -e "$log" ] || cp "$log" "$log.$name"
  fi
done
summary
