package hostenv_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
)

const staticState = `{"policyName":"static","defaultCpuSet":"0-3","entries":{},"checksum":1}`

// TestStateFileOnHungDisk checks that each call gives up in time while one read hangs, that
// no second read starts, and that the hung read's result is dropped.
func TestStateFileOnHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		answers := make(chan string)
		f := hostenv.NewStateFile("/kubelet/cpu_manager_state", func(string, int64) ([]byte, error) {
			reads.Add(1)
			return []byte(<-answers), nil
		})
		for range 3 {
			begin := time.Now()
			_, err := f.State(t.Context())
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "/kubelet/cpu_manager_state") || time.Since(begin) != hostenv.StateTimeout {
				t.Errorf("after %s: %v; want an error with the file's name after %s", time.Since(begin), err, hostenv.StateTimeout)
			}
		}
		if reads.Load() != 1 {
			t.Errorf("%d reads of a disk that does not answer; want one", reads.Load())
		}
		go func() {
			answers <- strings.Replace(staticState, "0-3", "0-7", 1) // old content
			answers <- staticState
		}()
		state, err := f.State(t.Context())
		if err != nil || state.Default.String() != "0-3" || reads.Load() != 2 {
			t.Errorf("state %+v after %d reads, %v; want the result of the second read", state, reads.Load(), err)
		}
	})
}

// TestStateFile reads a missing file and a good one.
func TestStateFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), hostenv.CPUManagerFile)
	f := hostenv.NewStateFile(name, nil)
	if _, err := f.State(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(name, []byte(staticState), 0o600); err != nil {
		t.Fatal(err)
	}
	if state, err := f.State(t.Context()); err != nil || state.Policy != "static" {
		t.Errorf("state %+v, %v", state, err)
	}
}
