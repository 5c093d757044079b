//go:build guest

package cgroup_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// taskMemory is the memory of each task, in bytes.
const taskMemory = 32 << 20

// TestMemoryMoves checks the effect of a write to cpuset.mems on a running process: its
// memory is on the other node when write(2) returns, and time has passed.
func TestMemoryMoves(t *testing.T) {
	k := newKernel(t)
	fs, err := cgroup.Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	const p = "memory.slice"
	if err := k.Mkdir(p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Rmdir(p); err != nil {
			t.Error(err)
		}
	})
	set := func(nodes string) time.Duration {
		t.Helper()
		before := time.Now()
		if err := fs.Write(p, cgroup.FileMems, nodes); err != nil {
			t.Fatal(err)
		}
		return time.Since(before)
	}
	set("0")
	task := startTask(t, p)
	t.Cleanup(task.stop)
	if at := task.memory(t); at[0] < taskMemory || at[1] >= taskMemory {
		t.Fatalf("memory by node: %v; want it on 0", at)
	}
	t.Logf("moved in %v", set("1"))
	if at := task.memory(t); at[1] < taskMemory || at[0] >= taskMemory {
		t.Errorf("memory by node after the write: %v; want it on 1", at)
	}
	t.Logf("nothing to move in %v", set("0-1"))
	if at := task.memory(t); at[1] < taskMemory {
		t.Errorf("memory by node after all nodes were allowed: %v; want it where it was", at)
	}
}

// memory returns the bytes of a process on the nodes 0 and 1 (numa_maps: words like
// N0=8192, in pages).
func (p task) memory(t testing.TB) (bytes [2]int) {
	t.Helper()
	for word := range strings.FieldsSeq(read(t, filepath.Join("/proc", strconv.Itoa(p.pid), "numa_maps"))) {
		for node := range bytes {
			pages, ok := strings.CutPrefix(word, fmt.Sprintf("N%d=", node))
			if !ok {
				continue
			}
			n, err := strconv.Atoi(pages)
			if err != nil {
				t.Fatal(err)
			}
			bytes[node] += n * 4096
		}
	}
	return bytes
}
