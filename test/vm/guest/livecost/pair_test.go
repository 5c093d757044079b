//go:build guest

package livecost_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const mount = "/sys/fs/cgroup"

// roleEnv makes this test binary one of two processes that switch at full speed, on the CPU of cpuEnv.
const (
	roleEnv = "LIVECOST_ROLE"
	cpuEnv  = "LIVECOST_CPU"
)

// Descriptors of both processes: each reads from one pipe and writes to the other.
const (
	readFD  = 3
	writeFD = 4
)

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// play is the main function of both processes. The process "echo" returns each byte. The process "drive" reads numbers from its input, makes so
// many round trips, and prints their time.
func play(role string) error {
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	cpu, err := strconv.Atoi(os.Getenv(cpuEnv))
	if err != nil {
		return err
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return err
	}
	if role == "echo" {
		for trip() {
		}
		return nil
	}
	var n uint32
	for {
		if err := binary.Read(os.Stdin, binary.LittleEndian, &n); err != nil {
			return nil //nolint:nilerr // the end of the input
		}
		began := time.Now()
		for range n {
			if !transfer(unix.SYS_WRITE, writeFD) || !transfer(unix.SYS_READ, readFD) {
				return io.ErrUnexpectedEOF
			}
		}
		fmt.Println(time.Since(began).Nanoseconds())
	}
}

// trip returns one byte.
func trip() bool { return transfer(unix.SYS_READ, readFD) && transfer(unix.SYS_WRITE, writeFD) }

// transfer makes a system call with one byte. Go's scheduler does not see it, so it adds no switches of its own.
func transfer(call, fd uintptr) bool {
	var b [1]byte
	n, _, errno := unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(&b)), 1)
	return errno == 0 && n == 1
}

// pair is two processes in one cgroup that switch to each other on one CPU.
type pair struct {
	*testing.T

	in  io.Writer
	out *bufio.Reader
}

// newPair starts both processes.
func newPair(t *testing.T, cgroup string, cpu int) *pair {
	t.Helper()
	dir, err := os.Open(filepath.Join(mount, cgroup))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	toEcho, toDrive := newPipe(t), newPipe(t)
	start := func(role string, read, write *os.File) (io.WriteCloser, io.Reader) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), roleEnv+"="+role, cpuEnv+"="+strconv.Itoa(cpu), "GOMAXPROCS=1")
		cmd.ExtraFiles = []*os.File{read, write}
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = in.Close()
			_ = cmd.Process.Kill() // echo waits for a byte
			_ = cmd.Wait()
		})
		return in, out
	}
	start("echo", toEcho.read, toDrive.write)
	in, out := start("drive", toDrive.read, toEcho.write)
	for _, f := range []*os.File{toEcho.read, toEcho.write, toDrive.read, toDrive.write} {
		_ = f.Close() // the processes have their own
	}
	return &pair{t, in, bufio.NewReader(out)}
}

type pipe struct{ read, write *os.File }

// newPipe returns a pipe of blocking files, which [transfer] needs.
func newPipe(t *testing.T) pipe {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	return pipe{os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe")}
}

// switches makes so many round trips, of two switches each, and returns the time of one switch in nanoseconds.
func (p *pair) switches(trips uint32) float64 {
	p.Helper()
	if err := binary.Write(p.in, binary.LittleEndian, trips); err != nil {
		p.Fatal(err)
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		p.Fatal(err)
	}
	return float64(n) / float64(2*trips)
}
