# Builds and installs the library from the source. A compiler cache reuses what other builds of the
# source compiled.
if command -v ccache > /dev/null; then
  CCACHE_DIR=$(ccache -k cache_dir)
  export CCACHE_DIR
fi
export HOME=$PWD CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
sudo() { # the packages are installed already
  shift
  dpkg -s "${@:2}" > /dev/null
}
cp -r "$REPOSITORY"/{CMakeLists.txt,LICENSE,cmake,include,src} .
# [install]
sudo apt install g++ cmake pkg-config libxxhash-dev libeigen3-dev libisal-dev libzstd-dev \
  liblmdb-dev

prefix=$HOME/libsab
cmake -B build/lib -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib
cmake --build build/lib --parallel 2
cmake --install build/lib

# where compilers and programs find it
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
# [end]
cc "$REPOSITORY"/examples/c/first.c $(pkg-config --cflags --libs sab) -o first
ldd first | grep -q "$prefix/lib/libsab.so.0"
test "$(./first | wc -l)" -gt 1
