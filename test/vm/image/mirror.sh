#!/bin/sh
# Prints the URI of the Debian archive that this host installs from; CPUPOOLD_DEBIAN_MIRROR overrides it.
set -eu
if [ -n "${CPUPOOLD_DEBIAN_MIRROR:-}" ]; then
	echo "$CPUPOOLD_DEBIAN_MIRROR"
	exit 0
fi
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
# shellcheck disable=SC2016 # apt expands the variables
mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Identifier: Packages' |
	awk -v release="$codename" '$1 == release && $2 == "main" { print $3; exit }')
if [ -z "$mirror" ]; then
	echo "mirror.sh: no apt source for Debian ${codename:-?}: set CPUPOOLD_DEBIAN_MIRROR to the URI of a Debian archive" >&2
	exit 1
fi
echo "$mirror"
