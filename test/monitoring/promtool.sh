#!/bin/sh
# promtool.sh [prometheus]: prints the path of Debian's promtool, or prometheus; fetches its package into the cache once, and installs nothing.
set -eu
program=${1:-promtool}
if command -v "$program"; then exit 0; fi
dir=${CPUPOOLD_CACHE:-$HOME/.cache/cpupoold}/promtool
if [ ! -x "$dir/usr/bin/$program" ]; then
	if ! command -v apt-get >/dev/null; then
		echo "promtool.sh: no $program command: install Prometheus' and put it into PATH" >&2
		exit 1
	fi
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	cd "$work"
	apt-get -q download prometheus >&2 || { apt-get -q update >&2 && apt-get -q download prometheus >&2; }
	dpkg-deb -x prometheus_*.deb tree
	mkdir -p "$dir/usr/bin"
	for name in promtool prometheus; do
		mv "tree/usr/bin/$name" "$dir/usr/bin/$name.new"
		mv "$dir/usr/bin/$name.new" "$dir/usr/bin/$name"
	done
fi
echo "$dir/usr/bin/$program"
