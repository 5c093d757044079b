//go:build apiserver

package claims_test

import "testing"

// TestGatesOn checks the driver in an API server with the feature gate of the mapping.
func TestGatesOn(t *testing.T) {
	s := start(t, feature+"=true")
	t.Run("slices", func(t *testing.T) { testSlices(t, s) })
}
