# Builds and installs the library from the source.
# slow
prefix=$PWD/prefix
cp -r "$REPOSITORY"/{CMakeLists.txt,LICENSE,cmake,include,src} .
# [install]
cmake -B build -DCMAKE_INSTALL_PREFIX="$prefix"
cmake --build build --parallel
cmake --install build
# [end]
test -e "$prefix"/include/sab.h
