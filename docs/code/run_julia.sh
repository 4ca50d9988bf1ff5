# Runs first.jl.
# needs: julia
export JULIA_DEPOT_PATH=$PWD
mkdir bindings
cp -r "$REPOSITORY"/bindings/julia bindings
cp "$REPOSITORY"/docs/code/first.jl .
# [run]
julia --project=bindings/julia first.jl
# [end]
