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

type kernelFacts struct {
	nodecheck.Kernel
	err error
}

func readKernel(root fs.FS) (k kernelFacts) {
	b, err := readFile(root, "/proc/sys/kernel/osrelease")
	if err != nil {
		return kernelFacts{err: err}
	}
	k.Kernel, k.err = nodecheck.ParseKernel(strings.TrimSpace(string(b)))
	return k
}

// checkPartitions ignores the version: distributions have backported remote partitions.
func checkPartitions(e *evidence) []Finding {
	for _, pods := range e.pods {
		dir := path.Join(cgroupRoot, pods.path)
		if _, err := fs.Stat(e.root, relative(path.Join(dir, "cpuset.cpus"))); err != nil {
			continue // checkKubepodsControllers reports the missing controller
		}
		if _, err := fs.Stat(e.root, relative(path.Join(dir, "cpuset.cpus.exclusive"))); errors.Is(err, fs.ErrNotExist) {
			return []Finding{e.kernel.NoPartitions(path.Join(dir, "cpuset.cpus.exclusive"), "does not exist")}
		}
	}
	return nil
}

func checkIsolation(e *evidence) []Finding {
	if e.config.Isolation != config.IsolationPartition {
		return checkParking(e)
	}
	f := Finding{Subject: e.file + ": guaranteed.isolation"}
	switch kernel := cgroup.PartitionsOf(e.kernel.Version()); {
	case kernel.Settled:
		return nil
	case !kernel.Remote:
		f.Severity = Error
		f.Found = fmt.Sprintf("is partition, and kernel %s has no partitions for containers: only cpusets keep CPUs exclusive", e.kernel.Kernel)
		f.Remedy = "use kernel 6.11 or later, or write cpuset"
	default:
		f.Severity = Warning
		f.Found = fmt.Sprintf("is partition, but on kernel %s a container has no partition while another container of its pod has a cpuset that contains its CPUs",
			e.kernel.Kernel)
		f.Remedy = "use kernel 7.0 or later, or let no other process write cpusets of containers"
	}
	return []Finding{f}
}

// checkParking reports guaranteed.park where isolation auto creates no partitions.
func checkParking(e *evidence) []Finding {
	if !e.config.Park || cgroup.PartitionsOf(e.kernel.Version()).Settled {
		return nil
	}
	return []Finding{newFinding(Warning, e.file+": guaranteed.park",
		fmt.Sprintf("is true, and with isolation auto, cpupoold creates no partitions on kernel %s: no CPU is parked", e.kernel.Kernel),
		"use kernel 7.0 or later, write isolation: partition (6.11 or later), or write park: false")}
}

func checkPSI(e *evidence) []Finding {
	if _, err := readFile(e.root, "/proc/pressure/cpu"); err == nil {
		return nil
	}
	return []Finding{newFinding(Info, "/proc/pressure/cpu",
		"cannot be read: the metrics of CPU pressure will be missing",
		"boot with the kernel argument psi=1")}
}
