package schedwatch_test

import (
	"errors"
	"io/fs"
	"testing"

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
