#!/usr/bin/env bash
# Installs the files of a release as users do, each in a clean chroot of Debian 11, 12 and 13, and
# runs the first example of each language with them: trials.sh SCRATCH FOLDER [SUITE...], by root.
# FOLDER is what release.sh wrote. A kind of file that it lacks is named and not tried. An
# aarch64 wheel runs by qemu. Rust and, from Debian 12 on, Julia are those of this machine and Debian 11.
set -euo pipefail
. "$(dirname "$0")/chroots.sh"
dist=$(realpath "$2")
shift 2
[ $# -gt 0 ] || set -- bullseye bookworm trixie
needs=(libxxhash-dev libeigen3-dev libisal-dev libsimdjson-dev libzstd-dev liblmdb-dev)
examples=$scratch/examples
mkdir -p "$examples"
# README's first example in Python, and what it prints.
awk '/^```python$/ { on = 1; next } /^```$/ { if (on) exit } on' "$repo/README.md" > "$examples/first.py"
awk '/^```text$/ { on = 1; next } /^```$/ { if (on) exit } on' "$repo/README.md" > "$examples/first.txt"
cp "$repo/examples/c/first.c" "$repo/examples/julia/first.jl" "$repo/docs/code/rust/src/bin/first.rs" "$examples"
printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(user LANGUAGES C CXX)' 'find_package(sab REQUIRED)' \
  'add_executable(first first.c)' 'target_link_libraries(first PRIVATE sab::sab)' > "$examples/CMakeLists.txt"

has() { # has GLOB: whether the release has such a file
  compgen -G "$dist/$1" > /dev/null || { echo "not tried: no $1" && return 1; }
}
fresh() { # fresh SUITE NAME PACKAGE...: a chroot with the release in /dist and the examples in /examples; sets root
  root=$scratch/$1-$2
  fresh_chroot "$1" "$root" || return 1
  cp -r "$dist" "$root/dist" && cp -r "$examples" "$root/examples"
  install_in "$root" "${@:3}"
}
example_of_readme() { # example_of_readme PYTHON...
  in_chroot "$root" sh -euc '"$@" /examples/first.py | diff - /examples/first.txt' sh "$@"
}
programs_in_c() { # found by pkg-config and by find_package
  in_chroot "$root" sh -euc '
    PATH=/cmake/bin:$PATH
    cc /examples/first.c $(pkg-config --cflags --libs sab) -o /by_pkg_config
    /by_pkg_config
    cmake -S /examples -B /by_cmake
    cmake --build /by_cmake
    /by_cmake/first'
}

wheel() { # wheel SUITE: without a compiler
  fresh "$1" wheel python3-venv || return 1
  in_chroot "$root" sh -euc '
    ! command -v cc
    python3 -m venv /venv
    /venv/bin/pip install -q --only-binary :all: /dist/python/*-manylinux*_x86_64.whl
    /venv/bin/python --version' || return 1
  example_of_readme /venv/bin/python
}

wheel_of_aarch64() { # Python 3.9 of Debian 11; pip is this machine's
  local python=libpython3.9-stdlib:arm64
  fresh bullseye aarch64-wheel python3-venv qemu-user-static || return 1
  in_chroot "$root" sh -c 'dpkg --add-architecture arm64 && apt-get update -qq' || return 1
  install_in "$root" "$python" libexpat1:arm64 libstdc++6:arm64 zlib1g:arm64 || return 1
  in_chroot "$root" sh -euc '
    cd /tmp
    apt-get download -qq python3.9-minimal:arm64
    dpkg-deb -x python3.9-minimal_*.deb /arm
    python3 -m venv /venv
    /venv/bin/pip install -q --target /site --only-binary :all: --implementation cp --python-version 3.9 --abi cp39 --abi abi3 \
      --platform manylinux_2_31_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 /dist/python/*_aarch64.whl' || return 1
  example_of_readme env PYTHONHOME=/usr PYTHONPATH=/site qemu-aarch64-static /arm/usr/bin/python3.9
}

debian_packages() { # debian_packages SUITE: without and then with a compiler
  fresh "$1" debs || return 1
  in_chroot "$root" sh -euc 'cd /dist/debian/$0 && apt-get install -qq ./libsab0_*.deb ./python3-sab_*.deb ./sab-tools_*.deb && sab --version' "$1" || return 1
  example_of_readme python3 || return 1
  install_in "$root" cmake g++ make pkg-config || return 1
  in_chroot "$root" sh -euc 'cd /dist/debian/$0 && apt-get install -qq ./libsab-dev_*.deb' "$1" || return 1
  programs_in_c
}

installed_from_source() { # installed_from_source SUITE: as README says; Debian 11 has an older CMake than 3.22
  fresh "$1" source ccache curl g++ make pkg-config python3-dev python3-venv "${needs[@]}" || return 1
  in_chroot "$root" sh -euc '
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    python3 -m venv /cmake
    /cmake/bin/pip install -q cmake==3.31.6
    PATH=/cmake/bin:$PATH
    tar -xf /dist/libsab-*-source.tar.gz
    cd libsab-*
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
    cmake -B build/lib && cmake --build build/lib -j2 && cmake --install build/lib && ldconfig' >> "$root.log" 2>&1 || { tail -n 20 "$root.log" && return 1; }
  programs_in_c
}

python_from_source() { # the source distribution compiles the library
  in_chroot "$root" sh -euc '
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    python3 -m venv /venv
    /venv/bin/pip install -q /dist/python/*.tar.gz' || return 1
  example_of_readme /venv/bin/python
}

crates() { # as they are packed, with the library just installed; release.sh has built the source in them
  local rust
  rust=$(rustc --print sysroot) || return 1
  [ "$rust" != /usr ] || { echo "missing: a Rust in a folder of its own, as rustup installs it" && return 1; }
  mkdir -p "$root/rust" && cp -r "$rust"/{bin,lib} "$root/rust" || return 1
  in_chroot "$root" sh -euc '
    export PATH=/rust/bin:$PATH SAB_NO_BUNDLED=1 LD_LIBRARY_PATH=/usr/local/lib
    mkdir /crates
    for crate in /dist/rust/*.crate; do tar -C /crates -xf $crate; done
    cargo init --quiet --vcs none --name first /first
    cd /first
    cp /examples/first.rs src/main.rs
    printf "[patch.crates-io]\nsab-sys.path = \"%s\"\n" /crates/sab-sys-* >> Cargo.toml
    cargo add --quiet --path /crates/libsab-*
    cargo run --quiet'
}

julia_package() { # offline: an empty registry in the place of Julia's; Pkg looks for curl all the same
  in_chroot "$root" sh -euc '
    mkdir -p /julia /depot/registries/Empty
    tar -C /julia -xf /dist/julia/SAB-*.tar.gz
    printf "%s\n" "name = \"Empty\"" "uuid = \"00000000-0000-4000-8000-000000000000\"" "repo = \"\"" "[packages]" > /depot/registries/Empty/Registry.toml
    /libsab-*/cmake/install-julia.sh /julia/installed
    export JULIA_DEPOT_PATH=/depot
    /julia/installed/julia -e "using Pkg; Pkg.develop(path = ARGS[1])" /julia/SAB-*
    /julia/installed/julia /examples/first.jl'
}

for suite in "$@"; do
  ! has 'python/*-manylinux*_x86_64.whl' || check "$suite: the wheel" wheel "$suite"
  ! has "debian/$suite/*.deb" || check "$suite: Debian packages, pkg-config, find_package" debian_packages "$suite"
  has '*-source.tar.gz' || continue
  root=$scratch/$suite-source
  check "$suite: installed from source, pkg-config, find_package" installed_from_source "$suite"
  ! has 'python/*.tar.gz' || check "$suite: Python from source" python_from_source
  ! has 'rust/*.crate' || check "$suite: crates" crates
  ! has 'julia/*.tar.gz' || check "$suite: Julia" julia_package
done
! has 'python/*_aarch64.whl' || check "the wheel for aarch64" wheel_of_aarch64
summary
