package audit

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestAffinity checks that Affinity returns an affinity, and allocates only the set.
func TestAffinity(t *testing.T) {
	got, err := Affinity(0) // the caller's thread
	if err != nil || got.IsEmpty() || got.Last() >= cpuset.MaxCPUs {
		t.Fatalf("%v, %v", got, err)
	}
	if took := testing.AllocsPerRun(100, func() { got, err = Affinity(0) }); err != nil || took > 1 {
		t.Errorf("%v allocations (%v)", took, err)
	}
	if _, err := Affinity(-1); err == nil {
		t.Error("task -1 has an affinity")
	}
}

func TestFromMask(t *testing.T) {
	for _, want := range []cpuset.Set{{}, cpuset.Of(0), cpuset.Of(63, 64), cpuset.Of(1, 200, cpuset.MaxCPUs-1), cpuset.Range(0, cpuset.MaxCPUs-1)} {
		mask := unix.NewCPUSet(cpuset.MaxCPUs)
		for cpu := range want.All() {
			mask.Set(cpu)
		}
		if got := fromMask(mask); !got.Equal(want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
