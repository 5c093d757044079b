package audit

import (
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestAffinity: the kernel is asked, and nothing is allocated but the set.
func TestAffinity(t *testing.T) {
	want, err := Affinity(0) // the caller's thread
	if err != nil || want.IsEmpty() {
		t.Fatalf("%v, %v", want, err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpus := slices.Collect(want.All())
	least := testing.AllocsPerRun(100, func() { kept = cpuset.Of(cpus...) })
	took := testing.AllocsPerRun(100, func() { kept, err = Affinity(0) })
	if err != nil || took > least {
		t.Errorf("%v allocations, the set takes %v (%v)", took, least, err)
	}
	if _, err := Affinity(-1); err == nil {
		t.Error("task -1 has an affinity")
	}
}

var kept cpuset.Set // what a compiler must not leave out

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
