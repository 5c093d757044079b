//go:build guest

package jitter_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
)

// config is the configuration of docs/how-to/measure-jitter.md, on a host whose services have exclusive
// CPUs too.
const config = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- {type: management, cpus: 0-1, namespaces: [kube-system]}
shared: {cpus: 2-3}
guaranteed: {cpus: 4-7}
hostSlices: {enabled: true}
units: {cpupoold-jitter.service: {cpus: 2}}
podResourcesSocket: none
`

// measurement holds the compared values of one measurement.
type measurement struct {
	CPU     int
	Allowed string
	Events  []struct {
		Sort, Name string
		Count      uint64
	}
}

// involuntary returns how often another task got the CPU of the measuring thread.
func (m *measurement) involuntary() (n uint64) {
	for _, e := range m.Events {
		if e.Sort == "switch" && e.Name == "involuntary" {
			n += e.Count
		}
	}
	return n
}

// TestEvents checks with load on every CPU that other tasks take the CPU of the measuring thread often without exclusive CPUs, and almost never with them.
func TestEvents(t *testing.T) {
	n := guestnode.New(t)
	n.StartDaemon(config)
	n.Settled()
	file := filepath.Join(t.TempDir(), "jitter.json")
	t.Logf("%s", n.Run("jitter", "-duration", "20s", "-settle", "1m", "-json", file))
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Without, With *measurement
		Why           string
	}
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	if report.Without == nil || report.With == nil {
		t.Fatalf("measurements = fewer than two: %s", report.Why)
	}
	if len(report.With.Allowed) != len("4-5") || report.With.CPU < 4 {
		t.Errorf("it ran on CPU %d of %s; want two of 4-7", report.With.CPU, report.With.Allowed)
	}
	without, with := report.Without.involuntary(), report.With.involuntary()
	t.Logf("others got the CPU %d times without, %d times with", without, with)
	if without < 50 || with > without/10 {
		t.Errorf("others got the CPU %d times without, %d times with; want many, and nearly none", without, with)
	}
}
