#!/bin/bash
# build.sh TREE...: builds the real software of the VM node and lays it out as trees that the guest's image takes over. TREE is node (in
# every node), tools (CNI plugins and crictl, which Debian's packages replace), containerd, crio, or, for test/e2e on the host, cluster, a
# control plane, conformance, Kubernetes' tests of nodes, or dradrivercpu, another driver for CPUs of ResourceClaims.
#
#   $CPUPOOLD_CACHE/vm/parts/tree-NAME/      the tree
#   $CPUPOOLD_CACHE/vm/parts/tree-NAME.key   a hash of all that went into it; it changes when the tree does
#
# CPUPOOLD_CACHE is by default ~/.cache/cpupoold; it outlives the clone.
# Nothing is built twice: each part is kept under the hash of its sources, flags and compiler. Several of these may run at once.
set -euo pipefail
umask 022

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../../.." && pwd)
cache=${CPUPOOLD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cpupoold}/vm/parts

# The caller's settings must not leak into what is cached.
unset GOOS GOARCH CGO_CFLAGS CGO_LDFLAGS
export GOGC=off # a compiler process is short: its garbage collector would take a fifth of the CPU time
export GOFLAGS='-mod=readonly -trimpath -buildvcs=false' GOWORK=off

say() { printf 'parts: %s\n' "$*" >&2; }
die() {
	say "$*"
	exit 1
}

command -v go >/dev/null || die "no go command: install Go $(sed -n 's/^go //p' "$repo/go.mod") or later from https://go.dev/dl"
command -v flock >/dev/null || die "no flock command: apt-get install util-linux"

# require_c installs what the parts in C, runc and a helper of CRI-O, are linked with.
require_c() {
	local packages=(gcc libc6-dev libseccomp-dev pkgconf)
	have_c && return
	if [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
		say "installing ${packages[*]}"
		if ! DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends "${packages[@]}" >&2; then
			apt-get -o DPkg::Lock::Timeout=300 -qq update >&2
			DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends "${packages[@]}" >&2 || true
		fi
	fi
	have_c || die "cannot link runc: a C compiler or a static library is missing: apt-get install ${packages[*]}"
}

# have_c: gcc answers with a full path only for a library that it has.
have_c() {
	command -v gcc >/dev/null && command -v pkg-config >/dev/null &&
		[[ $(gcc -print-file-name=libseccomp.a) == /* && $(gcc -print-file-name=libc.a) == /* ]]
}

compiler=$(go version)

# key hashes its arguments, the compiler and the files named on standard input.
key() {
	{
		printf '%s\n' "$compiler" "$@"
		(cd "$here" && xargs -r sha256sum)
	} | sha256sum | cut -c1-16
}

# part NAME KEY COMMAND... runs COMMAND in an empty directory and keeps the result as $cache/NAME-KEY, in place of older ones.
part() {
	local name=$1 dir=$cache/$1-$2
	shift 2
	if [[ ! -d $dir ]]; then
		say "$name: building"
		rm -rf "$dir.part" && mkdir -p "$dir.part"
		local began=$SECONDS
		(cd "$dir.part" && "$@") || die "$name: not built, see above"
		for old in "$cache/$name"-*; do
			[[ $old == "$dir.part" ]] || rm -rf "$old"
		done
		mv "$dir.part" "$dir"
		say "$name: built in $((SECONDS - began)) s"
	fi
	built[$name]=$dir
}

# tools NAME CGO TAGS LDFLAGS builds the programs that the tool lines of NAME/go.mod name.
tools() {
	part "$1" "$(printf '%s\n' "$1"/go.{mod,sum} | key "$@")" go_build "$here/$1" "$2" "$3" "$4" tool
}

# own NAME builds the program of this repository in the directory NAME.
own() {
	part "$1" "$(cd "$here" && find "$1" -type f ! -name '*_test.go' | sort | key "$@")" go_build "$here/$1" 0 '' '' .
}

go_build() {
	local out=$PWD
	CGO_ENABLED=$2 go -C "$1" build -tags "$3" -ldflags "-s -w $4" -o "$out/" "$5"
}

# pack NAME WORD... makes NAME.tar, an image of the program work with these default arguments.
pack() {
	local name=$1 args=()
	shift
	for word; do args+=(-cmd "$word"); done
	"${built[image]}/image" -o "$name.tar" -ref "localhost/cpupoold/$name:1" -file "${built[work]}/work:/work" -entrypoint /work "${args[@]}"
}

# Joined by &&: part tests the outcome, and within a test bash does not stop at errors by itself.
images() { pack pause pause && pack work sleep; }

# layout_NAME lays out the tree NAME in the current directory.
layout_node() {
	cp -r --no-preserve=mode,ownership "$here/rootfs/." .
	mkdir -p etc/kubernetes/manifests etc/kubernetes/kubelet.conf.d
	install -D -t usr/local/bin "${built[kubelet]}/kubelet"
	install -D -m 644 -t var/lib/images "${built[images]}"/*.tar
	enable cpupoold-images kubelet
}

layout_tools() {
	install -D -t usr/local/bin "${built[crictl]}/crictl"
	install -D -t opt/cni/bin "${built[cni]}"/*
}

layout_containerd() {
	install -D -t usr/local/bin "${built[containerd]}"/* "${built[runc]}/runc"
	enable containerd
}

layout_crio() {
	install -D -t usr/local/bin "${built[crio]}"/* "${built[pinns]}/pinns" "${built[runc]}/runc"
	enable crio
}

layout_cluster() {
	cp "${built[cluster]}"/kube{-apiserver,-controller-manager,-scheduler,ctl} .
	cp "${built[cluster]}/server" etcd
	cp -r --no-preserve=ownership "${built[pki]}/." .
}

layout_conformance() {
	cp "${built[conformance]}/suite" .
	cp "${built[conformance-images]}"/*.tar .
}

layout_dradrivercpu() { cp "${built[dradrivercpu-files]}"/* .; }

# enable does what `systemctl enable` would.
enable() {
	mkdir -p etc/systemd/system/multi-user.target.wants
	for unit; do
		ln -s "../$unit.service" "etc/systemd/system/multi-user.target.wants/$unit.service"
	done
}

# tree NAME FILE... lays out a tree of all that has been built, and of these files.
tree() {
	local name=$1 tree=$cache/tree-$1 all
	shift
	# Names, not paths: the same tree has the same key in every clone.
	all=$(printf '%s\n' "$@" | key "${built[@]##*/}" "$(declare -f "layout_$name" enable)")
	if [[ ! -d $tree || $(cat "$tree.key" 2>/dev/null) != "$all" ]]; then
		rm -rf "$tree.part" && mkdir -p "$tree.part"
		(cd "$tree.part" && "layout_$name")
		# The key goes first and comes last, so that a broken-off run is never taken for a whole tree.
		rm -rf "$tree.key" "$tree"
		mv "$tree.part" "$tree"
		echo "$all" >"$tree.key"
	fi
	say "$tree is ready ($(du -sh "$tree" | cut -f1), key $all)"
}

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9

# Some sources do not carry the version of their release. The kubelet's decides which feature gates it has.
release() { go -C "$here/$1" list -m -f '{{.Version}}' "$2"; }

# runc needs seccomp for pods that ask for the runtime's default profile. It is linked statically because the guest's libc is another.
build_runc() {
	require_c
	tools runc 1 'seccomp netgo osusergo' '-linkmode external -extldflags -static'
}

build_node() {
	local version stamp=k8s.io/component-base/version
	version=$(release kubelet k8s.io/kubernetes)
	tools kubelet 0 '' "-X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=$(cut -d. -f2 <<<"$version")"
	own work
	own image
	part images "$(key "${built[work]##*/}" "${built[image]##*/}" "$(declare -f pack images)" </dev/null)" images
	mapfile -t files < <(cd "$here" && find rootfs -type f | sort)
	tree node "${files[@]}"
}

build_tools() {
	local version
	version=$(release crictl sigs.k8s.io/cri-tools)
	tools cni 0 '' ''
	tools crictl 0 '' "-X sigs.k8s.io/cri-tools/pkg/version.Version=$version"
	tree tools
}

build_containerd() {
	build_runc
	local version
	version=$(release containerd github.com/containerd/containerd/v2)
	tools containerd 0 'no_btrfs no_devmapper no_zfs no_tracing' "-X github.com/containerd/containerd/v2/version.Version=$version"
	tree containerd
}

# CRI-O without seccomp, whose profiles it makes with a library in C: pods have none there.
build_crio() {
	build_runc
	tools crio 0 'exclude_graphdriver_btrfs containers_image_openpgp libsubid_off' ''
	part pinns "$(printf '%s\n' crio/go.{mod,sum} | key "$(gcc --version)" "$(declare -f pinns)")" pinns
	tree crio
}

# pinns is the program with which CRI-O makes namespaces. Its sources lie in CRI-O's module.
pinns() {
	local sources
	sources=$(go -C "$here/crio" list -m -f '{{.Dir}}' github.com/cri-o/cri-o)/pinns/src
	gcc -std=c99 -Os -static -s -o pinns "$sources"/*.c
}

build_cluster() {
	local version stamp=k8s.io/component-base/version
	version=$(release cluster k8s.io/kubernetes)
	tools cluster 0 '' "-X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=$(cut -d. -f2 <<<"$version")"
	part pki "$(printf '%s\n' cluster/kubeadm.yaml | key "${built[cluster]##*/}" "$(declare -f pki)")" pki
	tree cluster
}

# pki makes what `kubeadm init` makes of certificates, keys and kubeconfigs, and one more of a kubelet.
pki() {
	local kubeadm=${built[cluster]}/kubeadm
	sed "s|@PKI@|$PWD/pki|" "$here/cluster/kubeadm.yaml" >kubeadm.yaml
	"$kubeadm" init phase certs all --config kubeadm.yaml >&2 && "$kubeadm" init phase kubeconfig all --config kubeadm.yaml --kubeconfig-dir "$PWD" >&2 &&
		"$kubeadm" kubeconfig user --config kubeadm.yaml --validity-period 87600h --org system:nodes --client-name system:node:worker >worker.conf &&
		rm kubeadm.yaml
}

# The tests that Kubernetes has for nodes, and the images that they ask for, by the names that version has for them.
build_conformance() {
	local version stamp=k8s.io/component-base/version flags
	version=$(release conformance k8s.io/kubernetes)
	flags="-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=$(cut -d. -f2 <<<"$version")"
	part conformance "$(cd "$here" && find conformance -type f | sort | key "$flags")" go_build "$here/conformance" 0 '' "$flags" tool
	part busybox "$(key "$(declare -f busybox)" </dev/null)" busybox
	own work
	part conformance-images "$(key "${built[conformance]##*/}" "${built[busybox]##*/}" "${built[work]##*/}" \
		"$(declare -f conformance_images docker_tar)" </dev/null)" conformance_images
	tree conformance
}

# busybox fetches Debian's, which is one static program.
busybox() {
	local get=(apt-get -qq -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=300)
	"${get[@]}" download busybox-static >&2 || { "${get[@]}" update && "${get[@]}" download busybox-static; } >&2 || return
	dpkg-deb --fsys-tarfile busybox-static_*.deb | tar -x --strip-components=2 ./bin/busybox && rm busybox-static_*.deb
}

# conformance_images makes three images, each with all the versions that the tests know: agnhost with a shell, a shell, and pause.
conformance_images() {
	local all name names command
	all=$("${built[conformance]}/suite" -list-images 2>/dev/null) || return
	mkdir -p shell/bin shell/tmp pause && chmod 1777 shell/tmp && cp "${built[busybox]}/busybox" shell/bin/ &&
		for command in $(shell/bin/busybox --list); do [[ $command == busybox ]] || ln -s busybox "shell/bin/$command" || return; done &&
		cp -a shell agnhost && cp "${built[conformance]}/agnhost" agnhost/ && cp "${built[work]}/work" pause/ || return
	for name in agnhost busybox pause; do
		names=$(grep -E "^registry.k8s.io/(e2e-test-images/)?$name:" <<<"$all" | sed 's/.*/"&"/' | paste -sd,) || return
		case $name in
		agnhost) docker_tar agnhost "$names" '"Entrypoint": ["/agnhost"], "Cmd": ["pause"]' ;;
		busybox) docker_tar shell "$names" '"Cmd": ["sh"]' ;;
		pause) docker_tar pause "$names" '"Entrypoint": ["/work"], "Cmd": ["pause"]' ;;
		esac && mv image.tar "$name.tar" || return
	done
	rm -r shell agnhost pause
}

# docker_tar DIR NAMES CONFIG packs a directory as an image of one layer, image.tar: unlike the program image, with its links.
docker_tar() {
	local reproducible=(--sort=name --owner=0 --group=0 --numeric-owner --mtime=@0)
	tar "${reproducible[@]}" -C "$1" -cf layer.tar . &&
		printf '{"architecture": "amd64", "os": "linux", "config": {%s}, "rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]}}\n' \
			"$3" "$(sha256sum <layer.tar | cut -d' ' -f1)" >config.json &&
		printf '[{"Config": "config.json", "RepoTags": [%s], "Layers": ["layer.tar"]}]\n' "$2" >manifest.json &&
		tar "${reproducible[@]}" -cf image.tar manifest.json config.json layer.tar && rm manifest.json config.json layer.tar
}

build_dradrivercpu() {
	tools dradrivercpu 0 '' ''
	part dradrivercpu-files "$(key "${built[dradrivercpu]##*/}" "$(declare -f dradrivercpu_files docker_tar)" </dev/null)" dradrivercpu_files
	tree dradrivercpu
}

# dradrivercpu_files copies the manifests of dra-driver-cpu's module, and makes the image that they name. Its command is that of the module's
# Dockerfile.
dradrivercpu_files() {
	local sources ref
	sources=$(go -C "$here/dradrivercpu" list -m -f '{{.Dir}}' github.com/kubernetes-sigs/dra-driver-cpu) &&
		cp --no-preserve=mode "$sources"/manifests/base/*.yaml . && ref=$(sed -n 's/^ *image: //p' daemonset-dracpu.part.yaml) &&
		mkdir files && cp "${built[dradrivercpu]}/dracpu" files/ && docker_tar files "\"$ref\"" '"Cmd": ["/dracpu"]' && rm -r files
}

for name; do
	case $name in
	node | tools | containerd | crio | cluster | conformance | dradrivercpu) (
		declare -A built
		"build_$name"
	) ;;
	*) die "no tree $name: node, tools, containerd, crio, cluster, conformance or dradrivercpu" ;;
	esac
done
