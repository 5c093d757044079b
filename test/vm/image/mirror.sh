#!/bin/sh
# Prints the URI of the Debian archive that this host installs from; CPUPOOLD_DEBIAN_MIRROR overrides it.
set -eu
if [ -n "${CPUPOOLD_DEBIAN_MIRROR:-}" ]; then
	echo "$CPUPOOLD_DEBIAN_MIRROR"
	exit 0
fi
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=$(apt-get update --print-uris | sed -n "s|^'\(.*\)/dists/$codename/InRelease'.*|\1|p" | head -n 1)
case $mirror in
mirror+file:*) # Debian's cloud images: a file with a list of mirrors, see apt-transport-mirror(1). mmdebstrap wants a URI with "://".
	list=${mirror#mirror+file:}
	mirror=$(sed -n 's|^\([a-z]*://[^[:space:]]*\).*|\1|p' "${list#//}" | head -n 1)
	mirror=${mirror%/}
	;;
esac
if [ -z "$mirror" ]; then
	echo "mirror.sh: no apt source for Debian ${codename:-?}: set CPUPOOLD_DEBIAN_MIRROR to the URI of a Debian archive" >&2
	exit 1
fi
echo "$mirror"
