#!/bin/sh
# image.sh ROOTFS DIR [TREE...]: packs the system that rootfs.sh made in ROOTFS, with the configuration beside this script and the trees
# on top, each over those before it, as DIR/disk.img (raw, sparse, ext4), and makes DIR/id_ed25519, the key that opens a root
# shell in it, and DIR/host_key.pub, the key that it answers with.
set -eu
PATH=$PATH:/usr/sbin:/sbin
rootfs=$1 dir=$2
shift 2
size=6G

tree=$dir/tree
systemctl_enable() {
	mkdir -p "$tree/etc/systemd/system/multi-user.target.wants"
	ln -sfn "/etc/systemd/system/$1" "$tree/etc/systemd/system/multi-user.target.wants/$1"
}
cp -a "$rootfs/root" "$tree"
for top in "$(dirname "$0")/rootfs" "$@"; do
	cp -r "$top/." "$tree/"
done

ssh-keygen -q -t ed25519 -N '' -C vm -f "$dir/id_ed25519"
cp "$tree/etc/ssh/ssh_host_ed25519_key.pub" "$dir/host_key.pub"
install -d -m 700 "$tree/root/.ssh"
install -m 600 "$dir/id_ed25519.pub" "$tree/root/.ssh/authorized_keys"
rm -f "$tree/etc/machine-id"
od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$tree/etc/machine-id" # an empty one means first boot: presets, and minutes of emulated time
# A getty on the serial console takes the console away from whatever writes there.
for unit in getty.target serial-getty@.service getty@.service systemd-firstboot.service systemd-journal-flush.service \
	systemd-update-utmp.service e2scrub_reap.service e2scrub_all.timer fstrim.timer apt-daily.timer apt-daily-upgrade.timer \
	dpkg-db-backup.timer sshd-keygen.service; do
	ln -sfn /dev/null "$tree/etc/systemd/system/$unit"
done
systemctl_enable vm-network.service
systemctl_enable quota.slice
systemctl_enable task-switches.service
# Not older than /usr: else the first boot runs ldconfig and its like.
touch "$tree/etc/.updated" "$tree/var/.updated"
chown -R 0:0 "$tree/etc/systemd" "$tree/root"

mke2fs -q -t ext4 -d "$tree" -m 0 -E lazy_itable_init=1,nodiscard -O ^metadata_csum,^has_journal "$dir/disk.img" "$size" >&2
rm -rf "$tree"
