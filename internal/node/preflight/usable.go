package preflight

import (
	"io/fs"
	"syscall"

	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// cutTopology removes the CPUs from the topology that the cgroup root lacks. Errors of reading the
// tree are ignored, because other checks report a tree that cannot be read.
func (e *evidence) cutTopology() {
	if m, err := usablecpus.Cut(e.topology, cgroup.New(cgroupFiles{e.root})); err == nil && e.mount.isV2() {
		e.topology, e.withheld = m.Topology, m.Withheld
	}
}

// checkUsable reports CPUs that the daemon does not use because the cgroup root lacks them. A unit
// may have CPUs that are in no pool.
func checkUsable(e *evidence) []Finding {
	var findings []Finding
	for _, w := range e.withheld {
		f := Finding{Severity: Warning, Subject: cgroupRoot + "/cpuset.cpus.effective", Found: w.Found() + ": no pool has them", Remedy: w.Remedy()}
		if w.By != "" {
			f.Subject = cgroupRoot + "/" + string(w.By)
			if resolvedPools(e) && !w.CPUs.Overlaps(e.pools.Offline.Union(e.pools.Away)) {
				continue
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// cgroupFiles reads the cgroup tree of a host's files. It writes nothing.
type cgroupFiles struct{ root fs.FS }

func (c cgroupFiles) ReadFile(name string, _ int) ([]byte, error) {
	return readFile(c.root, cgroupRoot+"/"+name)
}

func (c cgroupFiles) ReadDir(name string) ([]string, error) {
	return directories(c.root, cgroupRoot+"/"+name), nil
}

func (cgroupFiles) WriteFile(string, string) error { return syscall.EROFS }

func (cgroupFiles) Mkdir(string) error { return syscall.EROFS }

func (cgroupFiles) Rmdir(string) error { return syscall.EROFS }
