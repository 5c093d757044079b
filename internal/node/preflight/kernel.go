package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// kernelFacts holds the version of the running kernel (/proc/sys/kernel/osrelease).
type kernelFacts struct {
	release      string
	major, minor int
	err          error
}

func readKernel(root fs.FS) kernelFacts {
	b, err := readFile(root, "/proc/sys/kernel/osrelease")
	if err != nil {
		return kernelFacts{err: err}
	}
	k := kernelFacts{release: strings.TrimSpace(string(b))}
	k.major, k.minor, k.err = parseRelease(k.release)
	return k
}

// parseRelease returns the first two numbers of a kernel release such as
// "6.12.107+deb13-cloud-amd64".
func parseRelease(s string) (major, minor int, err error) {
	first, rest, ok := strings.Cut(s, ".")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	a, errA := strconv.ParseUint(first, 10, 16)
	b, errB := strconv.ParseUint(rest, 10, 16)
	if !ok || errA != nil || errB != nil {
		return 0, 0, fmt.Errorf("parse kernel release %q: want MAJOR.MINOR first", s)
	}
	return int(a), int(b), nil
}

// before reports whether the kernel is older than the version.
func (k kernelFacts) before(major, minor int) bool {
	return k.major < major || k.major == major && k.minor < minor
}

// checkAffinity reports kernels that discard sched_setaffinity when a cpuset changes. 6.1 does
// so. 6.8 keeps the user's mask. Versions between were not tested, so the check covers
// versions up to 6.1.
func checkAffinity(e *evidence) []Finding {
	if !e.kernel.before(6, 2) {
		return nil
	}
	return []Finding{{
		Severity: Info,
		Subject:  "kernel " + e.kernel.release,
		Found:    "a change of a container's CPUs discards the affinities that its threads have set (kernels up to 6.1)",
		Remedy:   "use kernel 6.8 or later for programs that pin their own threads",
	}}
}

// checkReload reports kernels that can clear a populated cpuset (7.0 and later). systemd does
// so at daemon-reload, for each unit without AllowedCPUs.
func checkReload(e *evidence) []Finding {
	if e.kernel.before(7, 0) {
		return nil
	}
	return []Finding{{
		Severity: Info,
		Subject:  "kernel " + e.kernel.release,
		Found: fmt.Sprintf("with systemd %d a daemon-reload clears every cpuset.cpus that was only written to the file (kernels from 7.0 on)",
			e.systemd.version),
		Remedy: "nothing for cpupoold, which persists its sets with systemd and the runtime; let no other process write cpuset.cpus",
	}}
}

// checkPartitions reports a missing cpuset.cpus.exclusive. It ignores the version, because
// distributions have backported remote partitions.
func checkPartitions(e *evidence) []Finding {
	for _, pods := range e.pods {
		dir := path.Join(cgroupRoot, pods.path)
		if _, err := fs.Stat(e.root, relative(path.Join(dir, "cpuset.cpus"))); err != nil {
			continue // checkKubepodsControllers reports the missing controller
		}
		if _, err := fs.Stat(e.root, relative(path.Join(dir, "cpuset.cpus.exclusive"))); errors.Is(err, fs.ErrNotExist) {
			return []Finding{{
				Severity: Info,
				Subject:  path.Join(dir, "cpuset.cpus.exclusive"),
				Found:    fmt.Sprintf("does not exist: kernel %s cannot keep host processes off exclusive CPUs", e.kernel.release),
				Remedy:   "confine host services to the management CPUs, or use kernel 6.7 or later",
			}}
		}
	}
	return nil
}

// checkIsolation compares guaranteed.isolation with the kernel.
func checkIsolation(e *evidence) []Finding {
	if e.config.Isolation != config.IsolationPartition {
		return checkParking(e)
	}
	f := Finding{Subject: e.file + ": guaranteed.isolation"}
	switch kernel := cgroup.PartitionsOf(e.kernel.major, e.kernel.minor); {
	case kernel.Settled:
		return nil
	case !kernel.Remote:
		f.Severity = Error
		f.Found = fmt.Sprintf("is partition, and kernel %s has no partitions for containers: only cpusets keep CPUs exclusive", e.kernel.release)
		f.Remedy = "use kernel 6.11 or later, or write cpuset"
	default:
		f.Severity = Warning
		f.Found = fmt.Sprintf("is partition, but on kernel %s a container has no partition while another container of its pod has a cpuset that contains its CPUs",
			e.kernel.release)
		f.Remedy = "use kernel 7.0 or later, or let no other process write cpusets of containers"
	}
	return []Finding{f}
}

// checkParking reports guaranteed.park on a kernel on which isolation auto creates no
// partitions.
func checkParking(e *evidence) []Finding {
	if !e.config.Park || cgroup.PartitionsOf(e.kernel.major, e.kernel.minor).Settled {
		return nil
	}
	return []Finding{{
		Severity: Warning,
		Subject:  e.file + ": guaranteed.park",
		Found:    fmt.Sprintf("is true, and with isolation auto, cpupoold creates no partitions on kernel %s: no CPU is parked", e.kernel.release),
		Remedy:   "use kernel 7.0 or later, write isolation: partition (6.11 or later), or write park: false",
	}}
}

func checkPSI(e *evidence) []Finding {
	if _, err := readFile(e.root, "/proc/pressure/cpu"); err == nil {
		return nil
	}
	return []Finding{{
		Severity: Info,
		Subject:  "/proc/pressure/cpu",
		Found:    "cannot be read: the metrics of CPU pressure will be missing",
		Remedy:   "boot with the kernel argument psi=1",
	}}
}
