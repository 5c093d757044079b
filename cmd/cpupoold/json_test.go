package main

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/preflight"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/testing/jsonstyle"
	"github.com/cpupoold/cpupoold/internal/version"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// TestJSON checks the documents of -o json.
func TestJSON(t *testing.T) {
	jsonstyle.Check(t, inspect.Status{}, inspect.Explanation{}, history.Event{}, []preflight.Finding{}, preview.Preview{}, audit.Report{}, restore.Report{}, topology.Topology{}, defragReport{}, version.Build{})
}
