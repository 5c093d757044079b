//go:build guest

package limits_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/samples"
)

var out = flag.String("out", "/var/lib/limits.txt", "file to which the samples are appended")

const (
	mount = "/sys/fs/cgroup"
	// samplesEach are enough for a median despite other load on the host.
	samplesEach = 30
	// many is the number of repetitions in a sample of an operation that takes microseconds. It is even, so that an
	// alternating value ends at its start.
	many = 40
)

// meter takes the samples of one kernel.
type meter struct {
	*testing.T

	fs         *cgroup.FS
	kernel     string // "linux6.12"
	partitions cgroup.PartitionKernel
}

func newMeter(t *testing.T) *meter {
	t.Helper()
	fs, err := cgroup.Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		t.Fatal(err)
	}
	release := unix.ByteSliceToString(uts.Release[:])
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		t.Fatalf("parse release %q: %v", release, err)
	}
	m := &meter{T: t, fs: fs, kernel: fmt.Sprintf("linux%d.%d", major, minor)}
	if m.partitions, err = cgroup.ParsePartitionKernel(release); err != nil {
		t.Fatal(err)
	}
	t.Logf("kernel %s", release)
	return m
}

// operation is something that is measured, for the i-th time.
type operation func(i int) error

// compare measures the minimum of an operation and the daemon's operation. Both take turns, so that other load on the host affects both.
func (m *meter) compare(name string, times int, least, ours operation) {
	m.Helper()
	for range samplesEach {
		values := []any{m.time(times, least), "ns/op"}
		if ours != nil {
			values = append(values, m.time(times, ours), "ours-ns/op")
		}
		m.sample(name, times, values...)
	}
}

func (m *meter) sample(name string, operations int, values ...any) {
	m.Helper()
	samples.Append(m, *out, "Limit/"+m.kernel+"/"+name, operations, values...)
}

// time is the mean of so many, in nanoseconds.
func (m *meter) time(times int, o operation) int64 {
	m.Helper()
	began := time.Now()
	for i := range times {
		if err := o(i); err != nil {
			m.Fatal(err)
		}
	}
	return time.Since(began).Nanoseconds() / int64(times)
}

// file is an open file of a cgroup, so that a sample is a single system call.
type file int

func (m *meter) open(p cgroup.Path, name string, flags int) file {
	m.Helper()
	fd, err := unix.Open(filepath.Join(mount, string(p), name), flags|unix.O_CLOEXEC, 0)
	if err != nil {
		m.Fatalf("open %s of %s: %v", name, p, err)
	}
	m.Cleanup(func() { _ = unix.Close(fd) }) // of a machine that ends with the tests
	return file(fd)
}

func (f file) write(value string) error {
	_, err := unix.Write(int(f), []byte(value))
	return err
}

func (f file) read() error {
	var data [256]byte
	_, err := unix.Pread(int(f), data[:], 0)
	return err
}

// openedWrite and openedRead open the file first.
func openedWrite(p cgroup.Path, name, value string) error {
	fd, err := unix.Open(filepath.Join(mount, string(p), name), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(file(fd).write(value), unix.Close(fd))
}

func openedRead(p cgroup.Path, name string) error {
	fd, err := unix.Open(filepath.Join(mount, string(p), name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(file(fd).read(), unix.Close(fd))
}

// mkdir makes a cgroup, and those above it, which get the controllers. They are gone with the test.
func (m *meter) mkdir(p cgroup.Path) {
	m.Helper()
	parent := p.Parent()
	if parent == p {
		return // the root
	}
	m.mkdir(parent)
	m.write(parent, "cgroup.subtree_control", "+cpuset +cpu")
	dir := filepath.Join(mount, string(p))
	if err := os.Mkdir(dir, 0o755); os.IsExist(err) {
		return
	} else if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		if err := unix.Rmdir(dir); err != nil {
			m.Errorf("remove %s: %v", dir, err)
		}
	})
}

func (m *meter) write(p cgroup.Path, file, value string) {
	m.Helper()
	if err := m.fs.Write(p, file, value); err != nil {
		m.Fatal(err)
	}
}

// content returns the content of a file.
func (m *meter) content(p cgroup.Path, file string) string {
	m.Helper()
	data, err := m.fs.ReadFile(p, file)
	if err != nil {
		m.Fatal(err)
	}
	return string(data[:max(len(data)-1, 0)]) // without the end of the line
}

// threads returns the number of threads of a process.
func (m *meter) threads(pid int) int {
	m.Helper()
	all, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		m.Fatal(err)
	}
	return len(all)
}
