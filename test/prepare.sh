#!/bin/sh
# Installs the software that unit tests and linters need in addition to Go: a C compiler for the race detector, a C++ compiler for
# the prose lint (one of its parsers), and valgrind, which counts the instructions of benchmarks (bench/cmd/instructions; on amd64
# only, because the record is of amd64). Prints nothing if everything is installed.
set -eu
if ! command -v go >/dev/null; then
	echo "prepare.sh: no go command: install Go $(sed -n 's/^go //p' "$(dirname "$0")/../go.mod") or later from https://go.dev/dl and put it into PATH" >&2
	exit 1
fi
missing=
command -v gcc >/dev/null || missing=" gcc libc6-dev"
command -v g++ >/dev/null || missing="$missing g++"
if [ "$(go env GOARCH)" = amd64 ] && ! command -v valgrind >/dev/null; then missing="$missing valgrind"; fi
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
	echo "prepare.sh: missing Debian packages:$missing (gcc for the race detector, g++ for the prose lint, valgrind for bench-check): install them, or run this as root on Debian" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -q update >&2
# shellcheck disable=SC2086 # a list
apt-get -o DPkg::Lock::Timeout=300 -qy install --no-install-recommends $missing >&2
