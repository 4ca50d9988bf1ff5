// Generated from the public headers by tools/abi.py: do not edit.
structs! {
    sab_box_options,
    sab_thing,
}
