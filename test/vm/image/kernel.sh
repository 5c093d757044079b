#!/bin/sh
# kernel.sh DIR SUITE FLAVOUR: makes DIR/vmlinuz, the kernel linux-image-FLAVOUR-amd64 of that suite of Debian.
# Only guests without a disk boot it: there is no initrd with its modules.
set -eu
PATH=$PATH:/usr/sbin:/sbin
dir=$1 suite=$2 flavour=$3
mirror=$("$(dirname "$0")/mirror.sh")
case $suite in
forky) set -- --aptopt='Acquire::Check-Valid-Until "false"' ;; # as in rootfs.sh
*) set -- ;;
esac

mmdebstrap --mode=root --variant=extract --architectures=amd64 \
	--keyring=/usr/share/keyrings "$@" \
	--aptopt='Apt::Install-Recommends "false"' \
	--include="linux-image-$flavour-amd64" \
	"$suite" "$dir/root" "$mirror" >&2

# From 7.2 on, the kernel is next to its modules.
find "$dir/root" -name 'vmlinuz*' -type f -exec cp {} "$dir/vmlinuz" \;
test -s "$dir/vmlinuz"
rm -rf "$dir/root"
