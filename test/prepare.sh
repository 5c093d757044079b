#!/bin/sh
# Installs what the unit tests need besides Go: a C compiler, for the race detector. Silent when it is there.
set -eu
if ! command -v go >/dev/null; then
	echo "prepare.sh: no go command: install Go $(sed -n 's/^go //p' "$(dirname "$0")/../go.mod") or later from https://go.dev/dl and put it into PATH" >&2
	exit 1
fi
command -v gcc >/dev/null && exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
	echo "prepare.sh: gcc is missing (the race detector needs it): install gcc and libc6-dev, or run this as root on Debian" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -q update >&2
apt-get -o DPkg::Lock::Timeout=300 -qy install --no-install-recommends gcc libc6-dev >&2
