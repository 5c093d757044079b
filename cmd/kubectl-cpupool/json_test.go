package main

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/adopt"
	"github.com/cpupoold/cpupoold/internal/plugin/clustercheck"
	"github.com/cpupoold/cpupoold/internal/plugin/lint"
	"github.com/cpupoold/cpupoold/internal/plugin/overview"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/internal/testing/jsonstyle"
)

// TestJSON checks the documents of -o json.
func TestJSON(t *testing.T) {
	jsonstyle.Check(t, overview.Document{}, usageDocument{}, clustercheck.Document{}, []lint.Finding{}, importDocument{},
		each[simulate.Document]{}, each[simulate.Comparison]{}, adopt.Plan{}, inspect.Explanation{})
}
