//go:build fleet

package fleet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2/helper/numanode"
	"github.com/k8stopologyawareschedwg/podfingerprint"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

const objects = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"

// TestTopology checks that schedulers can read the object, that it is removed when the
// node has nothing to show, and that a cluster without such objects is queried only
// once.
func TestTopology(t *testing.T) {
	f := &fleet{server: startServer(t, []string{fmt.Sprintf("token-0,%s,n1,\"system:serviceaccounts,system:serviceaccounts:cpupoold\"\n", daemons)})}
	for _, file := range []string{"../../deploy/rbac.yaml", "../../deploy/topology/rbac.yaml"} {
		all, err := rights(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if _, err := f.server.do("POST", r.path, "application/yaml", r.body); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.register(t, "n1")

	missing := f.shows(t)
	eventually(t, "a warning", func() error {
		if !strings.Contains(missing.log(), "install the CustomResourceDefinition of topology.node.k8s.io/v1alpha2") {
			return fmt.Errorf("log %s", missing.log())
		}
		return nil
	})
	missing.show(2000)
	missing.stop()
	if n := strings.Count(missing.log(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings; want one: %s", n, missing.log())
	}

	// As its module has it; it is not copied.
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/k8stopologyawareschedwg/noderesourcetopology-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	crd, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "manifests", "crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.server.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/yaml", string(crd)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster has such objects", func() error {
		_, err := f.server.do("GET", objects, "", "")
		return err
	})

	r := f.shows(t)
	is := f.available(t, "3k")
	pods := podfingerprint.NewFingerprint(2)
	for _, p := range [][2]string{{"ran", "du-0"}, {"default", "web"}} {
		if err := pods.Add(p[0], p[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := pods.Check(is.Annotations[podfingerprint.Annotation]); err != nil {
		t.Error(err)
	}
	attributes := map[string]string{}
	for _, a := range is.Attributes {
		attributes[a.Name] = a.Value
	}
	for name, want := range map[string]string{
		"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "container",
		podfingerprint.Attribute: pods.Sign(), podfingerprint.AttributeMethod: podfingerprint.MethodAll,
	} {
		if attributes[name] != want {
			t.Errorf("attribute %s is %q; want %q", name, attributes[name], want)
		}
	}
	if len(is.Zones) != 2 {
		t.Fatalf("zones = %+v; want 2", is.Zones)
	}
	for i, z := range is.Zones {
		id, err := numanode.NameToID(z.Name)
		if err != nil || id != i || z.Type != "Node" || len(z.Costs) != 2 || z.Costs[1-i].Value != 21 {
			t.Errorf("zone %d: %v: %+v", i, err, z)
		}
		// All that pods ask for and that schedulers know by NUMA node.
		if got := len(z.Resources); got != 4 {
			t.Errorf("resources of zone %d = %d; want 4: %+v", i, got, z.Resources)
		}
	}
	if len(is.OwnerReferences) != 1 || is.OwnerReferences[0].Kind != "Node" || is.OwnerReferences[0].Name != "n1" {
		t.Errorf("owners = %+v; want Node n1", is.OwnerReferences)
	}

	r.show(3000) // as before
	r.show(1000)
	changed := f.available(t, "1k")
	if changed.Generation != is.Generation+1 {
		t.Errorf("generation after one change = %d; want one more than %d", changed.Generation, is.Generation)
	}

	r.stop()
	if _, err := f.server.do("GET", objects+"/n1", "", ""); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("after the daemon's end: %v", err)
	}
	f.shows(t)
	f.available(t, "3k")
	if _, err := nodestatus.Withdraw(t.Context(), r.options, workload.Names{}); err != nil {
		t.Error(err)
	}
	if _, err := f.server.do("GET", objects+"/n1", "", ""); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("after it was withdrawn: %v", err)
	}
}

// available waits until the first zone has an amount of free guaranteed CPUs.
func (f *fleet) available(t *testing.T, want string) *v1alpha2.NodeResourceTopology {
	t.Helper()
	var is v1alpha2.NodeResourceTopology
	eventually(t, "the object has "+want, func() error {
		data, err := f.server.do("GET", objects+"/n1", "", "")
		if err != nil {
			return err
		}
		is = v1alpha2.NodeResourceTopology{}
		if err := json.Unmarshal(data, &is); err != nil {
			return err
		}
		for _, r := range is.Zones[0].Resources {
			if r.Name == "openshift.io/guaranteed-cpus" && r.Available.String() == want {
				return nil
			}
		}
		return fmt.Errorf("zone %+v", is.Zones[0])
	})
	return &is
}

// watched is a node that shows its topology.
type watched struct {
	options nodestatus.Options
	runner  *nodestatus.Runner
	stop    func()

	mu   sync.Mutex
	text strings.Builder
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *watched) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func (f *fleet) shows(t *testing.T) *watched {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, file, fmt.Sprintf(kubeconfig, f.server.Address, filepath.Join(f.server.Dir, "apiserver.crt"), 0))
	access, err := nodestatus.Kubeconfig(file)
	if err != nil {
		t.Fatal(err)
	}
	sys := fstest.MapFS{}
	for i := range 2 {
		sys[fmt.Sprintf("devices/system/node/node%d/meminfo", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "Node %d MemTotal:       65536000 kB\n", i)}
		sys[fmt.Sprintf("devices/system/node/node%d/hugepages/hugepages-1048576kB/nr_hugepages", i)] = &fstest.MapFile{Data: []byte("4\n")}
	}
	w := &watched{}
	w.options = nodestatus.Options{
		Name: "n1", Access: access, Record: file, Version: "test", Sys: sys, Topology: true,
		Log: slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	// The test does not cover the kubelet's record: an empty one is no warning.
	w.options.Record = filepath.Join(t.TempDir(), "record")
	write(t, w.options.Record, `{"data":"{}"}`)
	w.runner = nodestatus.New(w.options)
	w.show(3000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.runner.Run(ctx)
	}()
	w.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(w.stop)
	return w
}

// show shows that so many thousandths of guaranteed CPUs are free in the first zone.
func (w *watched) show(free int64) {
	zone := func(id int, free int64) nodestatus.Zone {
		return nodestatus.Zone{ID: id, Distances: map[int]int{id: 10, 1 - id: 21}, Resources: map[string]nodestatus.ZoneAmounts{
			"cpu": {Capacity: 16000, Allocatable: 14000, Available: 14000}, "openshift.io/guaranteed-cpus": {Capacity: 4000, Allocatable: 4000, Available: free},
		}}
	}
	w.runner.Show(&nodestatus.State{Topology: &nodestatus.Topology{
		Policy: "single-numa-node", Zones: []nodestatus.Zone{zone(0, free), zone(1, 4000)},
		Pods: []nodestatus.PodName{{Namespace: "default", Name: "web"}, {Namespace: "ran", Name: "du-0"}},
	}})
}
