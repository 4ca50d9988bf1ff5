#!/usr/bin/env bash
# Compares libsab with its peers: the same work for all, counted by one counter.
#   bench.sh [QUESTION...] [--quick] [--lengths FILE]
# Questions: padding speed ranks steps prefixes packing shapes columns mixture loader resume elastic
# order training; all of them by default.
# Writes docs/benchmarks.md, its pictures and docs/benchmarks/results.json. With --quick, or with
# lengths of your own (.npy, or text with one number a line), it writes to build/benchmarks/ instead.
# Peers are installed into build/bench-venv, over Debian's torch. $SAB_WHEEL: a wheel of libsab,
# built from this checkout otherwise.
set -euo pipefail
cd "$(dirname "$0")"
. cmake/setup.sh
if command -v ccache > /dev/null; then use_ccache; fi
packages=(g++ cmake python3-venv python3-dev python3-numpy python3-torch wordnet-base libopenblas0-pthread)
[ -n "${SAB_WHEEL:-}" ] || packages+=(libxxhash-dev libeigen3-dev libisal-dev libsimdjson-dev libzstd-dev liblmdb-dev)
case " $* " in *" --quick "* | *" --lengths"*) ;; *) packages+=(mmseqs2-examples gcc-12-locales gimp-data git rdkit-data) ;; esac
need_packages "${packages[@]}"

venv=$PWD/build/bench-venv sources=$PWD/build/bench-sources
python=$venv/bin/python

# install_peer LINE: a line of requirements.txt. Peers whose build needs more than this machine has
# are unpacked only.
install_peer() {
  case $1 in
    fairseq==* | bagua==*)
      "$venv/bin/pip" download -q --no-deps --no-binary "${1%%==*}" -d "$sources" "$1"
      tar xf "$sources/${1//==/-}.tar.gz" -C "$sources" --strip-components=1 "${1//==/-}/${1%%==*}"
      ;;
    *) "$venv/bin/pip" install -q --no-deps "$1" ;;
  esac
}

install_peers() {
  make_venv "$venv"
  rm -rf "$sources"
  mkdir -p "$sources"
  local line peers=() plain=()
  mapfile -t peers < <(sed 's/ *#.*//; /^$/d' bench/requirements.txt)
  for line in "${peers[@]}"; do
    case $line in fairseq==* | bagua==*) ;; *) plain+=("$line") ;; esac
  done
  # All at once is faster; one by one finds the peer that cannot be installed.
  if "$venv/bin/pip" install -q --no-deps "${plain[@]}" 2> /dev/null; then
    peers=(fairseq==0.12.2 bagua==0.9.2)
  fi
  for line in "${peers[@]}"; do
    install_peer "$line" > "$sources/log" 2>&1 ||
      printf '%s\t%s\n' "${line%%==*}" "$(tail -n 1 "$sources/log")" >> "$sources/failed.tsv"
  done
  build_fairseq || printf 'fairseq\tits Cython module does not compile\n' >> "$sources/failed.tsv"
  cp bench/requirements.txt "$venv/installed.txt"
}

build_fairseq() { (
  cd "$sources/fairseq/data" && "$venv/bin/cython" --cplus data_utils_fast.pyx 2> /dev/null &&
    g++ -O2 -w -shared -fPIC "$("$python" -c 'import sysconfig; print("-I" + sysconfig.get_path("include"))')" \
      "$("$python" -c 'import numpy; print("-I" + numpy.get_include())')" data_utils_fast.cpp -o data_utils_fast.so
); }

cmp -s bench/requirements.txt "$venv/installed.txt" || install_peers
"$venv/bin/pip" install -q --force-reinstall --no-deps "${SAB_WHEEL:-./bindings/python}"
PYTHONPATH=$PWD:$sources exec "$python" -W ignore -m bench "$@"
