package vm

import (
	"errors"
	"testing"
)

// TestBuildRevisionUnknown checks that a clone without the history and a failed build
// return different errors.
func TestBuildRevisionUnknown(t *testing.T) {
	t.Setenv("CPUPOOLD_CACHE", t.TempDir())
	if program, err := BuildRevision(t.Context(), "0000000000000000000000000000000000000001", "cmd/cpupoold"); !errors.Is(err, ErrNoRevision) {
		t.Errorf("BuildRevision() = %q, %v; want %v", program, err, ErrNoRevision)
	}
}
