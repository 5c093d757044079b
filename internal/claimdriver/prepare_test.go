package claimdriver_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPrepare checks the life of a claim: the answer to the kubelet, the files for the runtime, and the end.
func TestPrepare(t *testing.T) {
	c := claim(1, "numa1", "2")
	n := newNode(t, c)
	n.start("")
	for range 2 { // a repeated call has the same answer
		a := n.prepare(c)
		if a.Error != "" || len(a.Devices) != 1 {
			t.Fatalf("prepare = %v; want a device", a)
		}
		d := a.Devices[0]
		want := []string{"cpu.cpupoold.io/claim=" + string(c.UID), "cpu.cpupoold.io/metadata=" + string(c.UID) + "_cpus"}
		if d.PoolName != "worker" || d.DeviceName != "numa1" || d.GetShareId() != string(uid(1001)) || !slices.Equal(d.RequestNames, []string{"cpus"}) || !slices.Equal(d.CdiDeviceIds, want) {
			t.Errorf("device = %v", d)
		}
	}
	got, err := os.ReadFile(filepath.Join(n.dir, "cdi", "cpu.cpupoold.io_claim_"+string(c.UID)+".json"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "cdiVersion": "0.5.0",
  "kind": "cpu.cpupoold.io/claim",
  "devices": [
    {
      "name": "00000000-0000-4000-8000-000000000001",
      "containerEdits": {
        "env": [
          "DRA_CPUSET_00000000-0000-4000-8000-000000000001=6-7",
          "CPUPOOL_CPUS=6-7"
        ]
      }
    }
  ],
  "containerEdits": {}
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("CDI file: -want +got:\n%s", diff)
	}
	for range 2 {
		if e := n.unprepare(c); e != "" {
			t.Errorf("unprepare: %s", e)
		}
	}
	if names := n.cdi(); len(names) > 0 || n.daemon.has(string(c.UID)) {
		t.Errorf("after the end: files %q, claim is known: %t", names, n.daemon.has(string(c.UID)))
	}
	if err := n.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}
