package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// TestReloadOfFileThatIsGone: an operator who moves the file away, and an editor
// between its remove and its create, must not get the defaults.
func TestReloadOfFileThatIsGone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	const text = "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\nguaranteed:\n  cpus: 2-3\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	machine := &topology.Topology{Present: cpuset.Range(0, 3), Online: cpuset.Range(0, 3)}
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
