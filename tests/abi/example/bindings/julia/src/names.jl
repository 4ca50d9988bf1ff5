# Generated from the public headers by tools/abi.py: do not edit.
# Names in messages of the library, and what they are in Julia.

const CHOICES = Dict(
)
const OPTIONS = Set([])
const COUNTED = Dict(
)
