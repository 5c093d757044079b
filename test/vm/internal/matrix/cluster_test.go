package matrix_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/matrix"
)

// kubernetes returns a row for each minor version that a test uses, and for the versions
// around them.
func kubernetes(t *testing.T, c ci) [][]string {
	t.Helper()
	var onNodes, inClusters []string
	for _, p := range matrix.Pairs() {
		onNodes = append(onNodes, p.Tests()...)
	}
	for _, s := range matrix.Slices() {
		for _, name := range s.Tests {
			if strings.HasPrefix(name, "TestCluster/") {
				inClusters = append(inClusters, name)
			}
		}
	}
	const module = "k8s.io/kubernetes"
	versions, tests, targets := map[int][]string{}, map[int][]string{}, map[int][]string{}
	use := func(dir, target string, names ...string) {
		version := pinned(t, dir, module)
		_, minor := numbers(t, version)
		versions[minor] = append(versions[minor], version)
		tests[minor] = append(tests[minor], names...)
		if target != "" && recipe(t, target) != "" {
			targets[minor] = append(targets[minor], "`make "+target+"`")
		}
	}
	use("test/vm/parts/kubelet", "", onNodes...)
	use("test/vm/parts/cluster", "", inClusters...)
	use("test/apiserver", "", "TestAPIServer")
	use("test/apiserver", "test-fleet")
	use("test/vm/parts/conformance", "test-conformance")

	oldest, err := strconv.Atoi(find(t, "deploy/chart/cpupoold/Chart.yaml", `(?m)^kubeVersion: ">=1\.(\d+)\.`))
	if err != nil {
		t.Fatal(err)
	}
	rows := [][]string{{"Kubernetes", fmt.Sprintf("before 1.%d", oldest), "", no, "", ""}}
	newest := oldest
	for minor := range versions {
		newest = max(newest, minor)
	}
	for minor := oldest; minor <= newest; minor++ {
		if len(versions[minor]) == 0 {
			first := minor
			for len(versions[minor+1]) == 0 {
				minor++
			}
			rows = append(rows, []string{"Kubernetes", fmt.Sprintf("1.%d to 1.%d", first, minor), "", expected, "", ""})
			continue
		}
		row := testedRow("Kubernetes", fmt.Sprintf("1.%d", minor), versions[minor], expected, c, tests[minor])
		if len(tests[minor]) == 0 {
			slices.Sort(versions[minor])
			row[2], row[3], row[4] = strings.Join(slices.Compact(versions[minor]), ", "), byHand, expected
		}
		row[5] = strings.TrimPrefix(row[5]+", by hand: "+strings.Join(targets[minor], ", "), ", ")
		rows = append(rows, row)
	}
	return rows
}

// architectures returns a row for the machines of the tests, and for each machine that
// `make cross` builds a program for.
func architectures(t *testing.T, c ci) [][]string {
	t.Helper()
	amd64 := find(t, "test/vm/image/rootfs.sh", `--architectures=(\S+)`)
	rows := [][]string{testedRow("architecture", amd64, []string{amd64 + ", emulated"}, "", c, matrix.Pairs()[0].Tests())}
	if c["cross"] == "" {
		t.Fatal(".ci/run does not build the target cross")
	}
	for line := range strings.Lines(c["cross"]) {
		words := strings.Fields(line)
		arch, ok := strings.CutPrefix(words[0], "GOARCH=")
		switch program := words[len(words)-1]; {
		case ok && program == "./cmd/cpupoold":
			rows = append(rows, []string{"architecture", arch, "", built, "", "each run, `make cross`"})
		case strings.HasPrefix(line, "\tGOOS=darwin GOARCH=arm64") && program == "./cmd/kubectl-cpupool":
			rows = append(rows, []string{"`kubectl cpupool`", "macOS, arm64", "", built, "", "each run, `make cross`"})
		}
	}
	return append(rows, []string{"architecture", "all others", "", no, "", ""})
}

// packages returns a row for each format and architecture of the packages of a release, and
// for the platforms of the kubectl plugin that only a release has.
func packages(t *testing.T) [][]string {
	t.Helper()
	var debs, rpms, plugins [][]string
	programs := regexp.MustCompile(`\{"(\S+)", "(\S+)", "(\S+)"\},`).FindAllStringSubmatch(read(t, "release/programs.go"), -1)
	if len(programs) == 0 {
		t.Fatal("release/programs.go has no programs")
	}
	for _, p := range programs {
		program, system, arch := p[1], p[2], p[3]
		switch {
		case program == "cpupoold" && arch == "amd64":
			debs = append(debs, []string{"package for Debian", arch, "Debian 12, Debian 13", byHand, expected, "`TestPackage`"})
			rpms = append(rpms, []string{"package for RPM", arch, "", seen, "", "`make release`"})
		case program == "cpupoold":
			debs = append(debs, []string{"package for Debian", arch, "", seen, "", "`make release`"})
			rpms = append(rpms, []string{"package for RPM", arch, "", seen, "", "`make release`"})
		case program == "kubectl-cpupool" && system != "linux" && system+arch != "darwinarm64":
			name := map[string]string{"darwin": "macOS", "windows": "Windows"}[system]
			plugins = append(plugins, []string{"`kubectl cpupool`", name + ", " + arch, "", built, "", "`make release`"})
		}
	}
	return slices.Concat(plugins, debs, rpms)
}

// firstKernel returns the oldest kernel that has a property of partitions.
func firstKernel(has func(cgroup.PartitionKernel) bool) string {
	for major := range 100 {
		for minor := range 100 {
			if has(cgroup.PartitionsOf(major, minor)) {
				return fmt.Sprintf("Linux %d.%d", major, minor)
			}
		}
	}
	return no
}

// features returns the minimum versions of features, with the file that states them.
func features() [][]string {
	remote := firstKernel(func(k cgroup.PartitionKernel) bool { return k.Remote })
	settled := firstKernel(func(k cgroup.PartitionKernel) bool { return k.Settled })
	const nri = "NRI: containerd 2.0, CRI-O 1.30, or containerd 1.7 with NRI switched on"
	const gate = "[gate `PodLevelResources`](https://github.com/kubernetes/kubernetes/blob/v1.37.0/pkg/features/kube_features.go)"
	return [][]string{
		{"all features", "cgroup v2", "", "", "[decision 0001](../adr/0001-cgroup-v2-only.md)"},
		{"all features of the daemon", "Linux 5.6 (`openat2`)", "", "", "[decision 0035](../adr/0035-confined-files.md)"},
		{"nodes with systemd cgroups, `units`, `hostSlices`", "systemd 244", "", "", "[write.go](../../pkg/cgroup/write.go)"},
		{"`guaranteed.isolation: partition`", remote, "", "", "[isolation](../explanation/isolation.md#by-kernel)"},
		{"`guaranteed.isolation: auto` makes partitions", settled, "", "", "[isolation](../explanation/isolation.md#by-kernel)"},
		{"`guaranteed.park`", remote + "; with `auto` " + settled, "", "", "[parking](../how-to/isolate-cpus.md#parking)"},
		{"threads keep their own affinity when the CPUs of the container change", "Linux 6.8; 6.2 to 6.7 were not examined", "", "", "[kernel.go](../../internal/node/preflight/kernel.go)"},
		{"workers of `io_uring` follow their container", "Linux 6.12", "", "", "[gather.go](../../pkg/cgroup/gather.go)"},
		{"CPUs before the first instruction", "", nri, "", "[NRI](../how-to/install.md#nri)"},
		{"environment variables with the CPUs of a container", "", nri, "", "[read CPUs](../how-to/read-cpus.md)"},
		{"no container starts without the daemon", "", "containerd 2.2, CRI-O with NRI 0.10 (not 1.34.0)", "", "[require the daemon](../how-to/require-daemon.md)"},
		{"resize of exclusive CPUs in place", "", nri, "1.33", "[resize](../explanation/cpu-changes.md#resize-in-place)"},
		{"pool resources of the Node follow the kubelet's record of pods", "", "", "1.33", "[decision 0019](../adr/0019-node-status.md)"},
		{"pods with resources at pod level", "", "", "1.34", gate},
		{"CPUs by ResourceClaims (cpupool-dra)", "", "NRI: containerd 2.0, CRI-O 1.30; claims by CDI devices: containerd 2.4.2", "1.36", "[claims](../how-to/use-resource-claims.md)"},
		{"claims count as `cpu` (`mapped`)", "", "", "1.37, with the gate `DRANodeAllocatableResources`", "[accounting](../explanation/resource-claims.md#accounting)"},
		{"`systemPartition`: pods in the kubelet's system partition", "", "", "1.38 (planned); 1.37.0 has no gate `NodeSystemPartition`", "[other managers](../how-to/other-managers.md#the-kubelets-system-partition)"},
		{"`guaranteed.exclusive: kubelet` with pods in management pools", "", "NRI: containerd 2.0, CRI-O 1.30", "", "[static kubelet](../how-to/static-kubelet.md)"},
		{"Helm chart, webhook, admission policies", "", "", "1.30", "[Chart.yaml](../../deploy/chart/cpupoold/Chart.yaml)"},
	}
}
