//go:build guest

package limits_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestCPUSet measures a write to cpuset.cpus that moves a process, one that moves a hundred threads, and one of what is there already; the read
// of cpuset.cpus.effective, and of all that the daemon reads of a cgroup; and a write and a read, which is how CPUs are given to a container and
// verified. The least is a system call on a file that is open. The daemon opens files each time, because their cgroup may have gone and come
// again: "opened" is the least with that.
func TestCPUSet(t *testing.T) {
	m := newMeter(t)
	one, crowd := cgroup.Path("limits/one"), cgroup.Path("limits/crowd")
	m.mkdir(one)
	m.mkdir(crowd)
	m.process(one)
	m.manyThreads(crowd, 100)
	m.compare("nothing", many, func(int) error { unix.Getppid(); return nil }, nil)

	ours := m.oursMoves(one)
	m.compare("write/process", many, m.moves(one), ours)
	m.compare("write/process/opened", many, func(i int) error { return openedWrite(one, cgroup.FileCPUs, side(i)) }, ours)
	m.compare("write/100threads", many, m.moves(crowd), m.oursMoves(crowd))
	to, same := m.open(one, cgroup.FileCPUs, unix.O_WRONLY), side(1) // where moves have ended
	m.compare("write/unchanged", many,
		func(int) error { return to.write(same) },
		func(int) error { return m.fs.Write(one, cgroup.FileCPUs, same) })

	from := m.open(one, fileEffective, unix.O_RDONLY)
	oursReads := func(int) error { _, err := m.fs.ReadFile(one, fileEffective); return err }
	m.compare("read/effective", many, func(int) error { return from.read() }, oursReads)
	m.compare("read/effective/opened", many, func(int) error { return openedRead(one, fileEffective) }, oursReads)
	var all []file
	for _, name := range readOfCgroup() {
		all = append(all, m.open(one, name, unix.O_RDONLY))
	}
	oursReads = func(int) error { _, err := m.fs.Read(one); return err }
	m.compare("read/cgroup", many, func(int) error {
		for _, f := range all {
			if err := f.read(); err != nil {
				return err
			}
		}
		return nil
	}, oursReads)
	m.compare("read/cgroup/opened", many, func(int) error {
		for _, name := range readOfCgroup() {
			if err := openedRead(one, name); err != nil {
				return err
			}
		}
		return nil
	}, oursReads)

	move := m.moves(one)
	m.compare("placed", many,
		func(i int) error { return errors.Join(move(i), from.read()) },
		func(i int) error { return errors.Join(ours(i), oursReads(i)) })
}

// readOfCgroup are the files that cgroup.FS reads of one, from the cgroup on.
func readOfCgroup() []string {
	return []string{"cgroup.events", "../" + fileEffective, fileEffective, cgroup.FileCPUs, cgroup.FileMems, cgroup.FilePartition, cgroup.FileWeight, "cpu.idle", cgroup.FileMax}
}

// side is what a cgroup's CPUs change between.
func side(i int) string { return cpuset.Range(2+2*(i%2), 3+2*(i%2)).String() }

const fileEffective = "cpuset.cpus.effective"

// moves writes another set each time.
func (m *meter) moves(p cgroup.Path) operation {
	m.Helper()
	to := m.open(p, cgroup.FileCPUs, unix.O_WRONLY)
	return func(i int) error { return to.write(side(i)) }
}

func (m *meter) oursMoves(p cgroup.Path) operation {
	return func(i int) error { return m.fs.Write(p, cgroup.FileCPUs, side(i)) }
}
