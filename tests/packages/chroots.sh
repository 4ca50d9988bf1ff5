# Sourced by the scripts beside it with their arguments, SCRATCH first: Debian in a folder, for
# root. Sets `repo` (the checkout) and `scratch`.
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$repo/cmake/setup.sh"
[ "$(id -u)" -eq 0 ] || { echo "a chroot needs root" >&2; exit 1; }
scratch=$(mkdir -p "$1/ccache" && cd "$1" && pwd)
need_packages debootstrap ca-certificates
mirror=$(debian_mirror)
[ -n "$mirror" ] || { echo "no Debian source in /etc/apt" >&2; exit 1; }

# fresh_chroot SUITE DIRECTORY: a minimal system; what debootstrap makes is kept for the next time.
# The functions below may run where set -e is off, so they return at the first failure themselves.
fresh_chroot() {
  local kept=${scratch:?}/$1.tar
  if [ ! -f "$kept" ]; then
    rm -rf "$scratch/$1.new"
    debootstrap --variant=minbase "$1" "$scratch/$1.new" "${mirror%/}" > "$scratch/$1.log" ||
      { echo "debootstrap made no $1: $scratch/$1.log" >&2 && return 1; }
    tar -C "$scratch/$1.new" -cf "$kept.new" . && mv "$kept.new" "$kept" || return 1
    rm -rf "$scratch/$1.new"
  fi
  rm -rf "$2"
  mkdir -p "$2/ccache"
  tar -C "$2" -xpf "$kept" || return 1
  cp /etc/hosts /etc/resolv.conf "$2/etc/"
  # A machine behind a proxy may trust certificates that Debian does not have.
  cp /etc/ssl/certs/ca-certificates.crt "$2/etc/machine.crt"
  # A frozen mirror will do, too; nothing that a package starts may outlive its test.
  printf '%s\n' 'Acquire::Check-Valid-Until "false";' 'APT::Install-Recommends "false";' 'DPkg::Use-Pty "false";' > "$2/etc/apt/apt.conf.d/check"
  echo force-unsafe-io > "$2/etc/dpkg/dpkg.cfg.d/check" # a chroot needs to survive no crash
  printf '#!/bin/sh\nexit 101\n' > "$2/usr/sbin/policy-rc.d"
  chmod +x "$2/usr/sbin/policy-rc.d"
  in_chroot "$2" apt-get update -qq
}

# in_chroot DIRECTORY COMMAND...: everything that it mounts and starts ends with it. All chroots
# share one folder of ccache.
in_chroot() {
  unshare --mount --pid --fork --kill-child sh -euc 'mount --bind "$1" "$2/ccache"; mount -t proc proc "$2/proc"; root=$2; shift 2; exec chroot "$root" "$@"' sh \
    "$scratch/ccache" "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive CCACHE_DIR=/ccache \
    PIP_CERT=/etc/machine.crt SSL_CERT_FILE=/etc/machine.crt CARGO_HTTP_CAINFO=/etc/machine.crt "${@:2}"
}

# install_in DIRECTORY PACKAGE...: its output goes to the log beside the chroot.
install_in() {
  in_chroot "$1" apt-get install -qq "${@:2}" >> "$1.log" 2>&1 || { tail -n 20 "$1.log" && return 1; }
}

# checkout_in DIRECTORY: what is committed here, in the chroot's /sab.
checkout_in() {
  mkdir -p "$1/sab"
  git -C "$repo" archive HEAD | tar -C "$1/sab" -x
}

# sources_in DIRECTORY: lets the chroot fetch source packages.
sources_in() {
  sed 's/^deb /deb-src /' "$1/etc/apt/sources.list" > "$1/etc/apt/sources.list.d/sources.list"
  in_chroot "$1" apt-get update -qq
}
