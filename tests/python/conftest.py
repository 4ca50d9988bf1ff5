import signal

# A shell that starts a command in the background lets it ignore SIGINT, and so would every test of
# Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
