package hostenv_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestReadBoot reads the command line of the kernel that runs the test.
func TestReadBoot(t *testing.T) {
	if b := hostenv.ReadBoot(cpuset.Range(0, cpuset.MaxCPUs-1)); b.Unknown {
		t.Error(b.Err)
	}
}
