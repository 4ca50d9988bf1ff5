#!/usr/bin/env bash
# Julia for the tests: install-julia.sh FOLDER unpacks the last Julia of Debian, 1.5 of the previous
# release, with the libraries that the system lacks, and writes FOLDER/julia, which runs it.
# Nothing of the system changes. Some 75 MB to download.
set -euo pipefail
mkdir -p "$1"
folder=$(cd "$1" && pwd)
[ ! -x "$folder/julia" ] || exit 0

. "$(dirname "$0")/setup.sh"
mirror=$(debian_mirror)
if [ -z "$mirror" ] || [ "$(dpkg --print-architecture)" != amd64 ]; then
  echo "install-julia.sh: needs a mirror of Debian in /etc/apt, and amd64" >&2
  exit 1
fi
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/none"
echo "deb $mirror bullseye main" > "$apt/sources.list"
own=(-qq -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts="$apt/none"
  -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts="$apt/none"
  -o Dir::State::Lists="$apt/lists" -o Dir::State::extended_states="$apt/states"
  -o Dir::Cache="$apt" -o Dir::Cache::Archives="$apt/archives" -o Acquire::Languages=none
  -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=1)
apt-get "${own[@]}" update
apt-get "${own[@]}" install --yes --download-only --no-install-recommends julia
# Julia crashes when it takes a backtrace with a later libunwind8.
(cd "$apt/archives" && apt-get "${own[@]}" -o Dir::State::status=/dev/null download libunwind8)
for package in "$apt"/archives/*.deb; do dpkg-deb --extract "$package" "$folder/root"; done

# Julia opens its libraries by links beside its own; those to what the system has lead there.
find "$folder/root/usr/lib/x86_64-linux-gnu/julia" -xtype l | while read -r link; do
  system=$(find /usr/lib/x86_64-linux-gnu -name "$(basename "$(readlink "$link")")" | head -n 1)
  [ -z "$system" ] || ln -sf "$system" "$link"
done

cat > "$folder/julia" <<END
#!/bin/sh
libraries=$folder/root/usr/lib/x86_64-linux-gnu
libraries=\$libraries:\$libraries/julia:$folder/root/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=\$libraries\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
exec "$folder/root/usr/bin/julia" "\$@"
END
chmod +x "$folder/julia"
"$folder/julia" -e 'using LinearAlgebra; println("Julia ", VERSION)'
