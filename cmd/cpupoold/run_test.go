package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// TestReloadOfFileThatIsGone checks that a missing file does not select the defaults.
// An operator may move the file away, and an editor removes it before it creates it.
func TestReloadOfFileThatIsGone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	const text = "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\nguaranteed:\n  cpus: 2-3\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	machine := machineOf(4)
	a := &app{} // without --config: the file was found where it is looked for
	if c, err := a.reload(file, machine); err != nil || c.Pools.Guaranteed.CPUs.String() != "2-3" {
		t.Fatalf("reload = %+v, %v; want the file's guaranteed pool", c, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if c, err := a.reload(file, machine); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reload without the file = %+v, %v; want %v", c, err, fs.ErrNotExist)
	}
}

// machineOf is a machine with this many CPUs.
func machineOf(cpus int) func() (*topology.Topology, error) {
	return func() (*topology.Topology, error) {
		all := cpuset.Range(0, cpus-1)
		return &topology.Topology{Present: all, Online: all}, nil
	}
}

// TestReloadOfBrokenFile checks that a reload also reports pools that the current
// machine lacks.
func TestReloadOfBrokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	const text = "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\nguaranteed:\n  cpus: 2-3\n  nonsense: 1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{}
	for cpus, wrong := range map[int]int{2: 2, 4: 1} {
		_, err := a.reload(file, machineOf(cpus))
		if err == nil || !strings.Contains(err.Error(), "nonsense") || len(strings.Split(err.Error(), "\n")) != wrong {
			t.Errorf("with %d CPUs: %v; want %d problems", cpus, err, wrong)
		}
	}
	unread := errors.New("no such device")
	_, err := a.reload(file, func() (*topology.Topology, error) { return nil, unread })
	if !errors.Is(err, unread) || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("with an unreadable machine: %v; want %v and the mistakes of the file", err, unread)
	}
}
