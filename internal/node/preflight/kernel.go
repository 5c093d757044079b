package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/nodecheck"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

func readKernel(root fs.FS) (nodecheck.Kernel, error) {
	b, err := readFile(root, "/proc/sys/kernel/osrelease")
	if err != nil {
		return nodecheck.Kernel{}, err
	}
	return nodecheck.ParseKernel(strings.TrimSpace(string(b)))
}

// checkPartitions ignores the version: distributions have backported remote partitions.
func checkPartitions(e *evidence) {
	for _, pods := range e.pods {
		dir := path.Join(cgroupRoot, pods.path)
		if _, err := fs.Stat(e.root, relative(path.Join(dir, "cpuset.cpus"))); err != nil {
			continue // checkKubepodsControllers reports the missing controller
		}
		if _, err := fs.Stat(e.root, relative(path.Join(dir, "cpuset.cpus.exclusive"))); errors.Is(err, fs.ErrNotExist) {
			e.report(e.kernel.NoPartitions(path.Join(dir, "cpuset.cpus.exclusive"), "does not exist"))
			return
		}
	}
}

func checkIsolation(e *evidence) {
	if e.config.Isolation != config.IsolationPartition {
		checkParking(e)
		return
	}
	key := e.file + ": guaranteed.isolation"
	switch kernel := cgroup.PartitionsOf(e.kernel.Version()); {
	case kernel.Settled:
	case !kernel.Remote:
		e.add(Error, key,
			fmt.Sprintf("is partition, and kernel %s has no partitions for containers: only cpusets keep CPUs exclusive", e.kernel),
			"use kernel 6.11 or later, or write cpuset")
	default:
		e.add(Warning, key,
			fmt.Sprintf("is partition, but on kernel %s a container has no partition while another container of its pod has a cpuset that contains its CPUs", e.kernel),
			"use kernel 7.0 or later, or let no other process write cpusets of containers")
	}
}

// checkParking reports guaranteed.park where isolation auto creates no partitions.
func checkParking(e *evidence) {
	if e.config.Park && !cgroup.PartitionsOf(e.kernel.Version()).Settled {
		e.add(Warning, e.file+": guaranteed.park",
			fmt.Sprintf("is true, and with isolation auto, cpupoold creates no partitions on kernel %s: no CPU is parked", e.kernel),
			"use kernel 7.0 or later, write isolation: partition (6.11 or later), or write park: false")
	}
}

func checkPSI(e *evidence) {
	if _, err := readFile(e.root, "/proc/pressure/cpu"); err != nil {
		e.add(Info, "/proc/pressure/cpu",
			"cannot be read: the metrics of CPU pressure will be missing",
			"boot with the kernel argument psi=1")
	}
}
