//go:build vm

package vm_test

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm/internal/matrix"
)

// TestCluster runs test/e2e. Each of its tests boots separate machines and is in a slice.
func TestCluster(t *testing.T) {
	for _, s := range matrix.Slices() {
		for _, name := range s.Tests {
			test, of := strings.CutPrefix(name, "TestCluster/")
			if !of {
				continue
			}
			t.Run(test, func(t *testing.T) {
				leave(t)
				succeeds(t, "make", "-C", "../..", "test-e2e", "RUN="+test)
			})
		}
	}
}
