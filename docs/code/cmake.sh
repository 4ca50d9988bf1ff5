# Builds and runs examples/c/first.c by CMake.
# needs: cmake
mkdir first
cd first || exit
cp "$REPOSITORY"/examples/c/first.c "$REPOSITORY"/docs/code/cmake/CMakeLists.txt .
export HOME=$PWD
ln -s "$(realpath "$(pkg-config --variable=prefix sab)")" libsab
# [cmake]
cmake -B build -DCMAKE_PREFIX_PATH="$HOME/libsab"
cmake --build build
build/first
# [end]
