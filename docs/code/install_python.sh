# Builds and installs the Python package from the source, several of its files at a time.
# shellcheck disable=SC1091 # venv/bin/activate is made here
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 SKBUILD_CMAKE_ARGS=-DCMAKE_UNITY_BUILD=ON
unset PYTHONPATH
sudo() { # the packages are installed already
  shift
  dpkg -s "${@:2}" > /dev/null
}
mkdir bindings
cp -r "$REPOSITORY"/{CMakeLists.txt,LICENSE,cmake,include,src} .
cp -r "$REPOSITORY"/bindings/python bindings
# [install]
sudo apt install g++ cmake ninja-build python3-dev python3-venv libxxhash-dev libeigen3-dev \
  libisal-dev libzstd-dev liblmdb-dev

python3 -m venv venv
. venv/bin/activate
pip install "./bindings/python[cli]"
python -c "import sab; print(sab.__version__)"
# [end]
package=$(python -c "import sab; print(sab.__file__)")
test "$package" = "$PWD"/venv/lib/*/site-packages/sab/__init__.py
