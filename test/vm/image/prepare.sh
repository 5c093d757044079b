#!/bin/sh
# Installs the missing packages of the VM tests: QEMU, mmdebstrap, mke2fs, ssh. Silent and quick if none is missing.
# Needs a Debian (or derived) host and root only if a package is missing; on other hosts it names the packages and fails.
set -eu
PATH=$PATH:/usr/sbin:/sbin
qemu_major=10 # QEMU 7.2 (Debian 12) corrupts guests with -accel tcg,thread=multi.

qemu_ok() {
	version=$(qemu-system-x86_64 --version 2>/dev/null | sed -n '1s/.*version \([0-9]*\)\..*/\1/p')
	[ "${version:-0}" -ge "$qemu_major" ]
}

missing=
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
qemu_ok || missing="$missing qemu-system-x86"
need qemu-img qemu-utils
need mmdebstrap mmdebstrap
need mke2fs e2fsprogs
need ssh openssh-client
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing="$missing debian-archive-keyring"
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
	echo "prepare.sh: missing Debian packages:$missing (QEMU $qemu_major or later): install them, or run this script as root on Debian 12 or later" >&2
	exit 1
fi

# A private set of sources and lists: backports are for these packages alone, the host's own configuration stays as it is.
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/sources.list.d" "$apt/lists/partial"
chmod 755 "$apt" # apt downloads as a user of its own
cp /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list "$apt/sources.list.d/" 2>/dev/null || true
get() { apt-get -q -o DPkg::Lock::Timeout=300 -o Dir::Etc::SourceParts="$apt/sources.list.d" -o Dir::State::Lists="$apt/lists" "$@"; }

get update >&2
candidate=$(apt-cache -o Dir::Etc::SourceParts="$apt/sources.list.d" -o Dir::State::Lists="$apt/lists" policy qemu-system-x86 |
	sed -n 's/^ *Candidate: *\([0-9]*:\)\{0,1\}\([0-9]*\)\..*/\2/p')
suite=
if ! qemu_ok && [ "${candidate:-0}" -lt "$qemu_major" ]; then
	mirror=$("$(dirname "$0")/mirror.sh")
	suite=$(. /etc/os-release && echo "$VERSION_CODENAME")-backports
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list.d/cpupoold-backports.list"
	if ! get update >&2; then
		echo "prepare.sh: no suite $suite at $mirror: QEMU $qemu_major or later is needed, this host offers ${candidate:-none}" >&2
		exit 1
	fi
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # a list of packages
get install -y --no-install-recommends ${suite:+-t "$suite"} $missing >&2
if ! qemu_ok; then
	echo "prepare.sh: installed QEMU is older than $qemu_major: $(qemu-system-x86_64 --version | head -n 1)" >&2
	exit 1
fi
