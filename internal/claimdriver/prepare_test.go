package claimdriver_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatav1beta1 "k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/inspect"
)

// TestPrepare checks the life of a claim: the answer to the kubelet, the files for the runtime, and the end.
func TestPrepare(t *testing.T) {
	c := claim(1, "numa1", "2")
	n := newNode(t, c)
	n.Start("")
	for range 2 { // a repeated call has the same answer
		a := n.Prepare(c)
		if a.Error != "" || len(a.Devices) != 1 {
			t.Fatalf("prepare = %v; want a device", a)
		}
		d := a.Devices[0]
		want := []string{"cpu.cpupoold.io/claim=" + string(c.UID), "cpu.cpupoold.io/metadata=" + string(c.UID) + "_cpus"}
		if d.PoolName != "worker" || d.DeviceName != "numa1" || d.GetShareId() != string(uid(1001)) || !slices.Equal(d.RequestNames, []string{"cpus"}) || !slices.Equal(d.CdiDeviceIds, want) {
			t.Errorf("device = %v", d)
		}
	}
	got, err := os.ReadFile(filepath.Join(n.Dir, "cdi", "cpu.cpupoold.io_claim_"+string(c.UID)+".json"))
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
	if diff := gocmp.Diff(want, string(got)); diff != "" {
		t.Errorf("CDI file: -want +got:\n%s", diff)
	}
	for range 2 {
		if e := n.Unprepare(c); e != "" {
			t.Errorf("unprepare: %s", e)
		}
	}
	if names := n.CDIFiles(); len(names) > 0 || n.Daemon.Has(string(c.UID)) {
		t.Errorf("after the end: files %q, claim is known: %t", names, n.Daemon.Has(string(c.UID)))
	}
	if err := n.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// TestRefusals checks that the kubelet gets one clear error for a claim without CPUs, and that no file
// remains.
func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		cpus   string
		change func(*resourcev1.ResourceClaim)
		want   string // part of the error; empty if the claim has no devices of this driver
	}{
		"half a CPU": {cpus: "1500m", want: "has 1500m of capacity"},
		"no CPU":     {cpus: "0", want: "has 0 of capacity"},
		"negative":   {cpus: "-1", want: "has -1 of capacity"},
		"2^63":       {cpus: "9223372036854775808", want: "want a whole number of CPUs"},
		"too many":   {cpus: "5", want: "4 CPUs of numa0; want 5"},
		"two pods": {change: func(c *resourcev1.ResourceClaim) {
			c.Status.ReservedFor = append(c.Status.ReservedFor, c.Status.ReservedFor[0])
		}, want: "it is reserved for 2 pods"},
		"no pod":         {change: func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor = nil }, want: "it is reserved for 0 pods"},
		"another object": {change: func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor[0].Resource = "jobs" }, want: `an object of resource "jobs"`},
		"foreign pool":   {change: func(c *resourcev1.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Pool = "other" }, want: "of pool other; this node is pool worker"},
		"not allocated":  {change: func(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil }, want: "not allocated"},
		"parameters": {change: func(c *resourcev1.ResourceClaim) {
			c.Status.Allocation.Devices.Config = []resourcev1.DeviceAllocationConfiguration{{Source: resourcev1.AllocationConfigSourceClaim, DeviceConfiguration: resourcev1.DeviceConfiguration{
				Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: dra.Driver, Parameters: runtime.RawExtension{Raw: []byte(`{}`)}},
			}}}
		}, want: "remove the config"},
		"admin access":   {change: func(c *resourcev1.ResourceClaim) { c.Status.Allocation.Devices.Results[0].AdminAccess = new(true) }},
		"another driver": {change: func(c *resourcev1.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Driver = "nic.example.com" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := claim(1, "numa0", cmp.Or(tt.cpus, "2"))
			if tt.change != nil {
				tt.change(c)
			}
			n := newNode(t, c)
			n.Start("")
			a, err := n.TryPrepare(c)
			switch {
			case err != nil: // of the library, before it calls the driver
				if tt.want == "" || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("prepare: %v; want %q", err, tt.want)
				}
			case (a.Error == "") != (tt.want == "") || !strings.Contains(a.Error, tt.want) || len(a.Devices) > 0:
				t.Errorf("prepare = %v; want no device, and the error %q", a, tt.want)
			case tt.want != "" && strings.Count(a.Error, "claim ran/du-1:") != 1:
				t.Errorf("error %q; want the name of the claim once", a.Error)
			}
			if names := n.CDIFiles(); len(names) > 0 || n.Daemon.Has(string(c.UID)) {
				t.Errorf("files %q; claim is known: %t", names, n.Daemon.Has(string(c.UID)))
			}
		})
	}
}

// TestDaemonAway checks that a claim waits while the daemon refuses it or is away, and that another try
// succeeds. A claim with a running container does not end.
func TestDaemonAway(t *testing.T) {
	c := claim(1, "numa0", "2")
	n := newNode(t, c)
	n.Start("")
	refuse := func(want string) {
		t.Helper()
		if a := n.Prepare(c); !strings.Contains(a.Error, want) || len(a.Devices) > 0 {
			t.Errorf("prepare = %v; want the error %q", a, want)
		}
	}
	n.Daemon.RefuseAll(errors.New(inspect.ClaimsWithoutNRI))
	refuse(inspect.ClaimsWithoutNRI)
	n.Daemon.RefuseAll(nil)
	n.Away()
	refuse("no daemon is running")
	n.ServeDaemon()
	if a := n.Prepare(c); a.Error != "" || len(a.Devices) != 1 {
		t.Errorf("prepare = %v; want a device", a)
	}
	n.Daemon.Change(func(now *inspect.Claims) { now.Claims[0].Pod, now.Claims[0].Containers = "ran/du", []string{"du"} })
	if e := n.Unprepare(c); e != "claim ran/du-1: container du runs" {
		t.Errorf("unprepare: %q; want a refusal", e)
	}
	if names := n.CDIFiles(); len(names) != 2 {
		t.Errorf("files %q; want both of the claim", names)
	}
	n.Away()
	if e := n.Unprepare(c); !strings.Contains(e, "no daemon is running") {
		t.Errorf("unprepare: %q; want an error", e)
	}
}

// TestMetadata checks the file with the attributes of a request, and that an annotation chooses no path.
func TestMetadata(t *testing.T) {
	c, forged := claim(1, "numa1", "2"), claim(2, "numa0", "1")
	forged.Annotations[resourcev1.PodResourceClaimAnnotation] = "../../../etc"
	n := newNode(t, c, forged)
	n.Start("")
	if a := n.Prepare(c); a.Error != "" {
		t.Fatal(a.Error)
	}
	f, err := os.Open(filepath.Join(n.Dir, "kubelet/plugins/cpu.cpupoold.io/dra-device-metadata/ran_du-1/cpus/metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var found metadatav1beta1.DeviceMetadata
	if err := json.NewDecoder(f).Decode(&found); err != nil {
		t.Fatal(err)
	}
	if len(found.Requests) != 1 || len(found.Requests[0].Devices) != 1 {
		t.Fatalf("metadata = %+v; want a request with a device", found)
	}
	got := make(map[string]string)
	for name, a := range found.Requests[0].Devices[0].Attributes {
		if a.StringValue != nil {
			got[string(name)] = *a.StringValue
		} else {
			got[string(name)] = fmt.Sprint(*a.IntValue)
		}
	}
	want := map[string]string{
		"cpu.cpupoold.io/allocatedCPUs": "2", "cpu.cpupoold.io/cpuset": "6-7", "cpu.cpupoold.io/cpus": "6-9", "cpu.cpupoold.io/l3Caches": "1",
		"cpu.cpupoold.io/socket": "1", "cpu.cpupoold.io/threadsPerCore": "1", "resource.kubernetes.io/numaNode": "1", "dra.net/numaNode": "1",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("attributes: -want +got:\n%s", diff)
	}
	if a := n.Prepare(forged); a.Error != "" {
		t.Fatal(a.Error)
	}
	text, err := os.ReadFile(filepath.Join(n.Dir, "cdi/cpu.cpupoold.io_metadata_"+string(forged.UID)+"_cpus.json"))
	if err != nil || strings.Contains(string(text), "..") {
		t.Errorf("CDI file of the metadata has %s, %v; want no ..", text, err)
	}
}

// TestParallelCalls checks that a claim is prepared while the preparation of another one waits.
func TestParallelCalls(t *testing.T) {
	slow, fast := claim(1, "numa0", "2"), claim(2, "numa0", "2")
	n := newNode(t, slow, fast)
	release := n.Daemon.Hold(string(slow.UID))
	n.Start("")
	done := make(chan *drapb.NodePrepareResourceResponse)
	go func() { done <- n.Prepare(slow) }()
	if a := n.Prepare(fast); a.Error != "" {
		t.Errorf("prepare: %s", a.Error)
	}
	release()
	if a := <-done; a.Error != "" {
		t.Errorf("prepare: %s", a.Error)
	}
}
