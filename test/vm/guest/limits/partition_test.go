//go:build guest

package limits_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const (
	member = "member"

	pod   = cgroup.Path("limits/pod")
	owner = cgroup.Path("limits/pod/owner")
)

func owned() cpuset.Set { return cpuset.Range(6, 7) }

// TestPartition measures a partition that begins and ends, in three forms. The first is the one write of its type. The second is all writes
// of an owner: its ancestors get the CPUs before, and release them afterwards. The third is the daemon's operation, which also reads,
// decides and verifies. No write changes the type of an invalid partition, because Linux 6.16 and 6.18 fail then.
func TestPartition(t *testing.T) {
	m := newMeter(t)
	if !m.partitions.Remote {
		t.Skipf("%s has no remote partitions", m.kernel)
	}
	m.mkdir(owner)
	m.process(owner)
	m.write(owner, cgroup.FileCPUs, owned().String())
	for _, typ := range []cgroup.PartitionType{cgroup.RootPartition, cgroup.IsolatedPartition} {
		m.types(typ)
		m.owners(typ)
	}
}

// types measures the write of a type, where all else is done.
func (m *meter) types(typ cgroup.PartitionType) {
	m.Helper()
	chain := []cgroup.Path{"limits", pod, owner}
	for _, p := range chain {
		m.write(p, cgroup.FileExclusive, owned().String())
	}
	to := m.open(owner, cgroup.FilePartition, unix.O_WRONLY)
	for range samplesEach {
		began := m.time(1, func(int) error { return to.write(string(typ)) })
		m.is(string(typ))
		ended := m.time(1, func(int) error { return to.write(member) })
		m.is(member)
		m.sample("partition/"+string(typ)+"/begins", 1, began, "ns/op")
		m.sample("partition/"+string(typ)+"/ends", 1, ended, "ns/op")
	}
	for i := range chain {
		m.write(chain[len(chain)-1-i], cgroup.FileExclusive, "\n")
	}
}

// owners measures all writes of an owner, and the daemon's way to the same.
func (m *meter) owners(typ cgroup.PartitionType) {
	m.Helper()
	var files []file
	for _, p := range []cgroup.Path{"limits", pod, owner} {
		files = append(files, m.open(p, cgroup.FileExclusive, unix.O_WRONLY))
	}
	to := m.open(owner, cgroup.FilePartition, unix.O_WRONLY)
	for range samplesEach {
		begins := m.time(1, func(int) error {
			for _, f := range files {
				if err := f.write(owned().String()); err != nil {
					return err
				}
			}
			return to.write(string(typ))
		})
		m.is(string(typ))
		ends := m.time(1, func(int) error {
			if err := to.write(member); err != nil {
				return err
			}
			for i := range files {
				if err := files[len(files)-1-i].write("\n"); err != nil {
					return err
				}
			}
			return nil
		})
		m.is(member)
		began := time.Now()
		m.daemon(typ, true)
		oursBegins := time.Since(began).Nanoseconds()
		m.is(string(typ))
		began = time.Now()
		m.daemon(typ, false)
		oursEnds := time.Since(began).Nanoseconds()
		m.is(member)
		m.sample("owner/"+string(typ)+"/begins", 1, begins, "ns/op", oursBegins, "ours-ns/op")
		m.sample("owner/"+string(typ)+"/ends", 1, ends, "ns/op", oursEnds, "ours-ns/op")
	}
}

// is checks the kernel's state after a write: the kernel takes any type without an
// error.
func (m *meter) is(typ string) {
	m.Helper()
	if got := m.content(owner, cgroup.FilePartition); got != typ {
		m.Fatalf("the owner is %q; want %s", got, typ)
	}
}

// daemon makes the steps that the daemon makes, until the partition is in force, or over.
func (m *meter) daemon(typ cgroup.PartitionType, begins bool) {
	m.Helper()
	in := cgroup.PartitionInput{Kernel: m.partitions, Online: cpuset.Range(0, 7), Housekeeping: cpuset.Range(0, 2)}
	if begins {
		in.Desired = []cgroup.DesiredPartition{{Path: owner, Type: typ, CPUs: owned()}}
	} else {
		in.Former = []cgroup.Path{owner}
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		var err error
		if in.View, err = m.fs.ReadPartitions([]cgroup.Path{owner}); err != nil {
			m.Fatal(err)
		}
		step := cgroup.PlanPartitions(in)
		for _, w := range step.Writes {
			if err := m.fs.Apply(w.Write); err != nil {
				m.Fatal(err)
			}
		}
		if len(step.Writes) == 0 && step.Missing.IsEmpty() && (!begins || step.Outcomes[owner].Phase == cgroup.PartitionInForce) {
			return
		}
	}
	m.Fatalf("type of the partition never becomes %s", typ)
}
