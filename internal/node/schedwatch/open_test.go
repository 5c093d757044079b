package schedwatch_test

import (
	"errors"
	"io/fs"
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

// TestOpenNeedsPaths checks that Open refuses to work without the capability that finds the path of a
// cgroup, before it loads a program.
func TestOpenNeedsPaths(t *testing.T) {
	dir := t.TempDir()
	var p *schedwatch.Program
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without an unlock: the thread without capabilities ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err = unix.Capset(&header, &none[0]); err == nil {
			p, err = schedwatch.Open(dir, 1)
		}
	}()
	<-done
	if p != nil || !errors.Is(err, schedwatch.ErrUnavailable) || !strings.Contains(err.Error(), "open a cgroup by its id") || !strings.Contains(err.Error(), "CAP_DAC_READ_SEARCH") {
		t.Errorf("without capabilities: %v", err)
	}
}
