package schedwatch_test

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestOpenChecksArguments checks that Open refuses wrong arguments before it calls the kernel.
func TestOpenChecksArguments(t *testing.T) {
	if p, err := schedwatch.Open(t.TempDir()+"/absent", 1); p != nil || !errors.Is(err, fs.ErrNotExist) || errors.Is(err, schedwatch.ErrUnavailable) {
		t.Errorf("without cgroup root: %v; want fs.ErrNotExist", err)
	}
	for _, cpus := range []int{-1, 0, cpuset.MaxCPUs + 1} {
		if p, err := schedwatch.Open(t.TempDir()+"/absent", cpus); p != nil || err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("with %d CPUs: %v; want an error about their number", cpus, err)
		}
	}
}

// openWith calls Open in a thread with some capabilities.
func openWith(t *testing.T, capabilities uint32) (*schedwatch.Program, error) {
	t.Helper()
	dir := t.TempDir()
	var p *schedwatch.Program
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without an unlock: the thread without capabilities ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		data := [2]unix.CapUserData{{Effective: capabilities, Permitted: capabilities}}
		if err = unix.Capset(&header, &data[0]); err == nil {
			p, err = schedwatch.Open(dir, 1)
		}
	}()
	<-done
	return p, err
}

// TestOpenNeedsPaths checks that Open refuses to work without the capability that finds the path of a
// cgroup, before it loads a program.
func TestOpenNeedsPaths(t *testing.T) {
	p, err := openWith(t, 0)
	if p != nil || !errors.Is(err, schedwatch.ErrUnavailable) || !strings.Contains(err.Error(), "open a cgroup by its id") || !strings.Contains(err.Error(), "CAP_DAC_READ_SEARCH") {
		t.Errorf("without capabilities: %v", err)
	}
}

// TestOpenExplainsDenial checks that the error without CAP_BPF names the missing capabilities, and not the limit
// of locked memory, which is the advice of the eBPF library.
func TestOpenExplainsDenial(t *testing.T) {
	p, err := openWith(t, 1<<unix.CAP_DAC_READ_SEARCH)
	switch {
	case errors.Is(err, unix.EPERM) && p == nil && errors.Is(err, schedwatch.ErrUnavailable):
	case os.Geteuid() != 0 || errors.Is(err, unix.ENOSYS):
		t.Skipf("this machine does not deny bpf: %v", err)
	default:
		t.Fatalf("without CAP_BPF: %v; want EPERM", err)
	}
	for _, word := range []string{"MEMLOCK", "RemoveMemlock"} {
		if strings.Contains(err.Error(), word) {
			t.Errorf("error %q mentions %s", err, word)
		}
	}
	if !strings.Contains(err.Error(), "this process lacks CAP_BPF, CAP_PERFMON") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q; want the missing capabilities, on one line", err)
	}
}
