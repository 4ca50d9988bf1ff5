# Generated from the public headers by tools/abi.py: do not edit.
"""Names in messages of the library, and what they are in Python."""

CHOICES = {
}
OPTIONS = {
}
COUNTED = {
}
