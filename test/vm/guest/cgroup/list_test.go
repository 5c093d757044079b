//go:build guest

package cgroup_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestListInOneRead checks that a read(2) of cgroup.threads that does not fill the buffer returns the complete list for any number
// of threads. pkg/cgroup relies on it with buffers from firstRead to shortList.
func TestListInOneRead(t *testing.T) {
	k := newKernel(t)
	if err := k.Mkdir("list"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removed(t, filepath.Join(mount, "list")) })
	name := filepath.Join(mount, "list", "cgroup.threads")
	whole, parts := 0, 0
	for tasks := range 12 {
		t.Cleanup(startTaskOf(t, "list", taskThreads, manyThreads).stop)
		for _, size := range []int{512, 2048} {
			buffer := make([]byte, size)
			var n int
			for all, before := "", "?"; all != before; { // a thread of Go's may come
				before = read(t, name)
				list := open(t, name, os.O_RDONLY)
				var err error
				if n, err = list.Read(buffer); err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				all = read(t, name)
				if lines := strings.Count(all, "\n"); lines < (tasks+1)*manyThreads {
					t.Fatalf("threads in the list of all tasks = %d; want those of %d tasks", lines, tasks+1)
				}
				if all == before && n < size && strings.TrimSpace(string(buffer[:n])) != all {
					t.Errorf("bytes of a read of up to %d = %d; want %d", size, n, len(all))
				}
			}
			if n < size {
				whole++
			} else {
				parts++
			}
		}
	}
	if whole < 3 || parts < 3 {
		t.Errorf("lists in one read, in more = %d, %d; want at least 3 of each", whole, parts)
	}
}
