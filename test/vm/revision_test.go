package vm

import (
	"errors"
	"testing"
)

// TestBuildRevisionUnknown: a clone without the history is told from a build that fails.
func TestBuildRevisionUnknown(t *testing.T) {
	t.Setenv("CPUPOOLD_CACHE", t.TempDir())
	if program, err := BuildRevision(t.Context(), "0000000000000000000000000000000000000001", "cmd/cpupoold"); !errors.Is(err, ErrNoRevision) {
		t.Errorf("BuildRevision() = %q, %v; want %v", program, err, ErrNoRevision)
	}
}
