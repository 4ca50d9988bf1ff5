#!/usr/bin/env bash
# Runs the Julia package's tests against an installed libsab: run.sh PREFIX. Julia is $JULIA or the one on the path; where there is none they are skipped.
set -euo pipefail
julia=$(command -v "${JULIA:-julia}") || { echo "skipped: no Julia here (cmake/install-julia.sh FOLDER unpacks one)"; exit 0; }
package=$(cd "$(dirname "$0")/../../bindings/julia" && pwd)
SAB_LIBRARY=$(find "$1" -name libsab.so.0 | head -n 1)
depot=$(mktemp -d)
trap 'rm -rf "$depot"' EXIT
# As many threads as the machine allows; nothing but the package and the standard library.
export SAB_LIBRARY JULIA_NUM_THREADS=${JULIA_NUM_THREADS:-4} JULIA_LOAD_PATH=@:@stdlib JULIA_DEPOT_PATH=$depot
"$julia" --project="$package" --startup-file=no "$package/test/runtests.jl"
