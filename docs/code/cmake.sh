# Builds and runs examples/c/first.c by CMake.
# needs: cmake
mkdir first && cd first
cp "$REPOSITORY"/examples/c/first.c "$REPOSITORY"/docs/code/cmake/CMakeLists.txt .
prefix=$(pkg-config --variable=prefix sab)
# [cmake]
cmake -B build -DCMAKE_PREFIX_PATH="$prefix"
cmake --build build
build/first
# [end]
