"""What is wrong with an input or an option."""


class InputError(Exception):
    """An input that cannot be read, in words for the user."""
