package audit

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

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
