package nodefixture

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/walk"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// State returns the kernel's values for the cgroup of a container or sandbox, by id. It
// returns zero values for a cgroup that does not exist.
func (n *Node) State(id string) cgroup.State {
	return n.StateAt(cgroup.Path(n.Runtime.Cgroup(id)))
}

// StateAt returns the kernel's values for a cgroup, and zero values for one that does not
// exist.
func (n *Node) StateAt(p cgroup.Path) cgroup.State {
	st, err := cgroup.New(n.Tree).Read(p)
	if err != nil {
		return cgroup.State{}
	}
	return st
}

// CPUsOf returns the effective CPUs of a cgroup, or "" if it does not exist.
func (n *Node) CPUsOf(p cgroup.Path) string { return n.StateAt(p).Effective.String() }

// AwaitCPUs waits until a container and its threads run on exactly cpus.
func (n *Node) AwaitCPUs(id, cpus string) {
	n.T.Helper()
	n.Eventually("container on CPUs "+cpus, func() bool {
		return n.State(id).Effective.String() == cpus && n.ThreadCPUs(id).IsSubsetOf(n.State(id).Effective)
	})
}

// AwaitCPUsOf waits until the effective CPUs of a cgroup are cpus.
func (n *Node) AwaitCPUsOf(p cgroup.Path, cpus string) {
	n.T.Helper()
	n.Eventually(string(p)+" on CPUs "+cpus, func() bool { return n.CPUsOf(p) == cpus })
}

// AwaitFile waits until a file of a cgroup contains value. For cpu.max value is the quota
// alone.
func (n *Node) AwaitFile(p, file, value string) {
	n.T.Helper()
	n.Eventually(fmt.Sprintf("%s of %s is %q", file, p, value), func() bool {
		b, err := n.Tree.ReadFile(path.Join(p, file), 1<<12)
		has := strings.TrimSpace(string(b))
		if file == cgroup.FileMax {
			has, _, _ = strings.Cut(has, " ")
		}
		return err == nil && has == value
	})
}

// ThreadCPUs returns the CPUs on which the container's threads may run.
func (n *Node) ThreadCPUs(id string) cpuset.Set {
	n.T.Helper()
	data, err := n.Tree.ReadFile(path.Join(n.Runtime.Cgroup(id), "cgroup.threads"), 1<<12)
	if err != nil {
		n.T.Error(err)
	}
	var all cpuset.Set
	for field := range strings.FieldsSeq(string(data)) {
		tid, err := strconv.Atoi(field)
		if err != nil {
			n.T.Error(err)
		}
		cpus, err := n.Tree.Affinity(tid)
		if err != nil {
			n.T.Error(err)
		}
		all = all.Union(cpus)
	}
	return all
}

// WriteFile writes a file of the container's cgroup, as another process does.
func (n *Node) WriteFile(id, file, value string) {
	n.T.Helper()
	if err := n.Tree.Write(path.Join(n.Runtime.Cgroup(id), file), value); err != nil {
		n.T.Fatal(err)
	}
}

// RefuseWrites makes the kernel refuse the daemon's writes to a file of a cgroup with EBUSY,
// until end is called.
func (n *Node) RefuseWrites(p cgroup.Path, file string) (end func()) {
	n.Tree.Intercept(func(w testnode.CgroupWrite) error {
		if w.Name == path.Join(string(p), file) {
			return syscall.EBUSY
		}
		return nil
	})
	return func() { n.Tree.Intercept(nil) }
}

// MakeInnerCgroup makes the cgroup that crun keeps below a container's scope, and returns
// its path.
func (n *Node) MakeInnerCgroup(id, cpus, quota string) cgroup.Path {
	n.T.Helper()
	inner := cgroup.Path(n.Runtime.Cgroup(id)).Join("container")
	n.Tree.MkdirAll(string(inner))
	for file, value := range map[string]string{"cpuset.cpus": cpus, "cpu.max": quota} {
		if err := n.Tree.Write(string(inner)+"/"+file, value); err != nil {
			n.T.Fatal(err)
		}
	}
	return inner
}

// Settings returns the files of all cgroups that a daemon may write, by path/file.
func (n *Node) Settings() map[string]string {
	n.T.Helper()
	all := make(map[string]string)
	fs := cgroup.New(n.Tree)
	err := walk.Cgroups(fs, "", func(p cgroup.Path) error {
		for _, file := range []string{cgroup.FileCPUs, cgroup.FileMems, cgroup.FileWeight, cgroup.FileMax, cgroup.FilePartition, cgroup.FileExclusive} {
			if b, err := fs.ReadFile(p, file); err == nil {
				all[string(p)+"/"+file] = strings.TrimSpace(string(b))
			}
		}
		return nil
	})
	if err != nil {
		n.T.Fatal(err)
	}
	return all
}

// Dump returns the values of all cgroups as text.
func (n *Node) Dump() string {
	var b bytes.Buffer
	fs := cgroup.New(n.Tree)
	_ = walk.Cgroups(fs, "", func(p cgroup.Path) error {
		if st, err := fs.Read(p); err == nil {
			fmt.Fprintf(&b, "%-100s cpus=%q effective=%s weight=%d quota=%d\n", p, st.CPUs, st.Effective, st.Weight, st.Quota)
		}
		return nil
	})
	return b.String()
}
