# Generated from the public headers by tools/abi.py: do not edit.
"""Names in messages of the library, and what they are in Python."""

CHOICES = {
    "SAB_LID_OPEN": "open",
    "SAB_LID_NOT_LOCKED": "not_locked",
}
OPTIONS = {}
COUNTED = {}
