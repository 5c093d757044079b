package nodecheck

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/findings"
)

// Kernel is the version of a kernel.
type Kernel struct {
	release      string
	major, minor int
}

// ParseKernel parses a kernel release such as "6.12.107+deb13-cloud-amd64".
func ParseKernel(release string) (Kernel, error) {
	first, rest, ok := strings.Cut(release, ".")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	major, errMajor := strconv.ParseUint(first, 10, 16)
	minor, errMinor := strconv.ParseUint(rest, 10, 16)
	if !ok || errMajor != nil || errMinor != nil {
		return Kernel{}, fmt.Errorf("parse kernel release %q: want MAJOR.MINOR first", release)
	}
	return Kernel{release, int(major), int(minor)}, nil
}

// String returns the release.
func (k Kernel) String() string { return k.release }

// Version returns the first two numbers of the release.
func (k Kernel) Version() (major, minor int) { return k.major, k.minor }

// Before reports whether the kernel is older than the version.
func (k Kernel) Before(major, minor int) bool {
	return k.major < major || k.major == major && k.minor < minor
}

// Affinity reports kernels that discard sched_setaffinity when a cpuset changes. 6.1 does so.
// 6.8 keeps the user's mask. Versions between were not tested, so it reports versions up to
// 6.1.
func (k Kernel) Affinity() []findings.Finding {
	if !k.Before(6, 2) {
		return nil
	}
	return []findings.Finding{findings.New(findings.Info, "kernel "+k.release,
		"a change of a container's CPUs discards the affinities that its threads have set (kernels up to 6.1)",
		"use kernel 6.8 or later for programs that pin their own threads")}
}

// Reload reports kernels that can clear a populated cpuset (7.0 and later). Systemd does so at
// daemon-reload, for each unit without AllowedCPUs. The name of systemd has its version, if
// that is known.
func (k Kernel) Reload(systemd string) []findings.Finding {
	if k.Before(7, 0) {
		return nil
	}
	return []findings.Finding{findings.New(findings.Info, "kernel "+k.release,
		fmt.Sprintf("with %s a daemon-reload clears every cpuset.cpus that was only written to the file (kernels from 7.0 on)", systemd),
		"nothing for cpupoold, which persists its sets with systemd and the runtime; let no other process write cpuset.cpus")}
}

// NoPartitions returns the finding that the kernel has no cpuset.cpus.exclusive. The subject
// names the evidence, and found starts the sentence.
func (k Kernel) NoPartitions(subject, found string) findings.Finding {
	return findings.New(findings.Info, subject,
		fmt.Sprintf("%s: kernel %s cannot keep host processes off exclusive CPUs", found, k.release),
		"confine host services to the management CPUs, or use kernel 6.7 or later")
}
