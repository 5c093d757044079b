#!/bin/sh
# Prints the path of Debian's promtool; fetches its package into the cache once, and installs nothing.
set -eu
if command -v promtool; then exit 0; fi
dir=${CPUPOOLD_CACHE:-$HOME/.cache/cpupoold}/promtool
if [ ! -x "$dir/usr/bin/promtool" ]; then
	if ! command -v apt-get >/dev/null; then
		echo "promtool.sh: no promtool command: install Prometheus' promtool and put it into PATH" >&2
		exit 1
	fi
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	cd "$work"
	apt-get -q download prometheus >&2 || { apt-get -q update >&2 && apt-get -q download prometheus >&2; }
	dpkg-deb -x prometheus_*.deb tree
	mkdir -p "$dir/usr/bin"
	mv tree/usr/bin/promtool "$dir/usr/bin/promtool.new"
	mv "$dir/usr/bin/promtool.new" "$dir/usr/bin/promtool"
fi
echo "$dir/usr/bin/promtool"
