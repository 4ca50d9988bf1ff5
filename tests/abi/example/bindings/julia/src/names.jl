# Generated from the public headers by tools/abi.py: do not edit.
# Names in messages of the library, and what they are in Julia.

const CHOICES = Dict(
    "SAB_LID_OPEN" => ":open",
    "SAB_LID_NOT_LOCKED" => ":not_locked",
)
const OPTIONS = Set([])
const COUNTED = Dict(
)
