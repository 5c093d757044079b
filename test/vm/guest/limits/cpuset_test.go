//go:build guest

package limits_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestCPUSet measures writes and reads of a cgroup's cpuset. It writes cpuset.cpus so that one process moves, or a hundred threads move, or the
// value stays the same. It reads cpuset.cpus.effective, and all files that the daemon reads. One sample is a write followed by a read, as in a
// placement. The minimum is a system call on an open file. The daemon opens files each time, because their cgroup may have been created again:
// "opened" is the minimum with that.
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

// side alternates between the two CPU lists of a cgroup.
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
