#!/bin/sh
# rootfs.sh DIR SUITE [PACKAGE...]: makes DIR/root, a system of that suite of Debian for the guest with these packages besides, and
# DIR/vmlinuz and DIR/initrd, its kernel.
# What is the same for every image; image.sh adds configuration and parts and packs it.
set -eu
PATH=$PATH:/usr/sbin:/sbin
dir=$1 suite=$2
shift 2
packages=$(echo "$@" | tr ' ' ,)
mirror=$("$(dirname "$0")/mirror.sh")
case $suite in
forky) set -- --aptopt='Acquire::Check-Valid-Until "false"' ;; # not released yet, so signed for a week: a mirror may be behind
*) set -- ;;
esac

# The initrd holds only what finds the root disk: emulated CPUs take seconds to unpack Debian's full one.
# shellcheck disable=SC2016 # mmdebstrap expands $1
mmdebstrap --mode=root --variant=essential --architectures=amd64 \
	--keyring=/usr/share/keyrings "$@" \
	--aptopt='Apt::Install-Recommends "false"' \
	--dpkgopt='path-exclude=/usr/share/doc/*' \
	--dpkgopt='path-exclude=/usr/share/info/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	--dpkgopt='path-exclude=/usr/share/man/*' \
	--include=ca-certificates,conntrack,dbus,initramfs-tools,iproute2,iptables,kmod,linux-image-cloud-amd64,openssh-server,procps,strace,systemd-sysv,udev,zstd${packages:+,$packages} \
	--essential-hook='mkdir -p "$1/etc/initramfs-tools/conf.d"' \
	--essential-hook='printf "MODULES=list\nCOMPRESS=zstd\n" >"$1/etc/initramfs-tools/conf.d/vm.conf"' \
	--essential-hook='printf "virtio_blk\nvirtio_pci\nvirtio_net\next4\n" >"$1/etc/initramfs-tools/modules"' \
	"$suite" "$dir/root" "$mirror" >&2

cp "$dir"/root/boot/vmlinuz-* "$dir/vmlinuz"
cp "$dir"/root/boot/initrd.img-* "$dir/initrd"
rm -rf "$dir"/root/boot/*
