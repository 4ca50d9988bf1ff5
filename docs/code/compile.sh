# Builds and runs examples/c/first.c with an installed libsab.
cp "$REPOSITORY"/examples/c/first.c .
# [compile]
cc first.c $(pkg-config --cflags --libs sab) -o first
./first
# [end]
test "$(./first | wc -l)" -gt 1
