package hostenv_test

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
)

// TestLock checks that a second holder is refused with the process of the first one, and
// that unlock releases the lock.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	unlock, err := hostenv.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hostenv.Lock(dir); err == nil || !strings.Contains(err.Error(), "is held by process") {
		t.Errorf("second lock: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if unlock, err = hostenv.Lock(dir); err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}
