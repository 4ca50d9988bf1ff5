# Sourced by the scripts beside it: Debian in a folder, for root. Needs debootstrap. `repo` is the checkout, `scratch` is where they are kept.
. "${repo:?}/cmake/setup.sh"
mirror=$(debian_mirror)
[ -n "$mirror" ] || { echo "no Debian source in /etc/apt" >&2; exit 1; }

# fresh_chroot SUITE DIRECTORY: a minimal system; what debootstrap makes is kept for the next time.
fresh_chroot() {
  local kept=${scratch:?}/$1.tar
  if [ ! -f "$kept" ]; then
    rm -rf "$scratch/$1.new"
    debootstrap --variant=minbase "$1" "$scratch/$1.new" "${mirror%/}" > "$scratch/$1.log"
    tar -C "$scratch/$1.new" -cf "$kept.new" .
    mv "$kept.new" "$kept"
    rm -rf "$scratch/$1.new"
  fi
  rm -rf "$2"
  mkdir -p "$2"
  tar -C "$2" -xpf "$kept"
  cp /etc/hosts /etc/resolv.conf "$2/etc/"
  # A frozen mirror will do, too; nothing that a package starts may outlive its test.
  printf '%s\n' 'Acquire::Check-Valid-Until "false";' 'APT::Install-Recommends "false";' 'DPkg::Use-Pty "false";' > "$2/etc/apt/apt.conf.d/check"
  printf '#!/bin/sh\nexit 101\n' > "$2/usr/sbin/policy-rc.d"
  chmod +x "$2/usr/sbin/policy-rc.d"
  in_chroot "$2" apt-get update -qq
}

# in_chroot DIRECTORY COMMAND...: what it mounts and starts is gone with it.
in_chroot() {
  unshare --mount --pid --fork --kill-child --root="$1" --mount-proc --wd=/ \
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive CCACHE_DIR=/ccache "${@:2}"
}
