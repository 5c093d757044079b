package nodestatus_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/capacity"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
)

const (
	cores      = "management.workload.openshift.io/cores"
	shared     = "openshift.io/shared-cpus"
	guaranteed = "openshift.io/guaranteed-cpus"
)

// requesting returns a request for CPU and, if count is not 0, for a resource.
func requesting(milli int64, resource string, count int64) nodestatus.Request {
	r := nodestatus.Request{Milli: milli}
	if count != 0 {
		r.Extended = map[string]int64{resource: count}
	}
	return r
}

func TestAdvertise(t *testing.T) {
	pools := []capacity.Pool{{Resource: shared, Milli: 4000}, {Resource: guaranteed, Milli: 6000}, {Resource: cores, Milli: 12000}}
	in := func(name, resource string) nodestatus.Container {
		return nodestatus.Container{Name: name, Resource: resource}
	}
	one := func(r nodestatus.Request) nodestatus.Record {
		return nodestatus.Record{"u": {Containers: map[string]nodestatus.Request{"c": r}}}
	}
	runs := func(resource string) []nodestatus.Pod {
		return []nodestatus.Pod{{UID: "u", Resource: shared, Containers: []nodestatus.Container{in("c", resource)}}}
	}
	for name, c := range map[string]struct {
		pools  []capacity.Pool
		pods   []nodestatus.Pod
		record nodestatus.Record
		want   string // shared, guaranteed and cores, each as Milli-Unaccounted
	}{
		"empty node":                     {want: "4000-0 6000-0 12000-0"},
		"counted":                        {pods: runs(shared), record: one(requesting(500, shared, 500)), want: "4000-0 6000-0 12000-0"},
		"without the webhook":            {pods: runs(shared), record: one(requesting(500, "", 0)), want: "3500-500 6000-0 12000-0"},
		"grown since":                    {pods: runs(guaranteed), record: one(requesting(3000, guaranteed, 2000)), want: "4000-0 5000-1000 12000-0"},
		"shrunk since":                   {pods: runs(guaranteed), record: one(requesting(1000, guaranteed, 2000)), want: "4000-0 6000-0 12000-0"},
		"pool shrunk below the requests": {pods: runs(shared), record: one(requesting(5000, shared, 5000)), want: "5000-0 6000-0 12000-0"},
		"pool shrunk, and a pod is not counted": {
			pods: append(runs(shared), nodestatus.Pod{UID: "v", Resource: shared, Containers: []nodestatus.Container{in("c", shared)}}),
			record: nodestatus.Record{"u": {Containers: map[string]nodestatus.Request{"c": requesting(5000, shared, 5000)}},
				"v": {Containers: map[string]nodestatus.Request{"c": requesting(700, "", 0)}}},
			want: "5000-700 6000-0 12000-0",
		},
		"nothing is left":         {pods: runs(shared), record: one(requesting(9000, "", 0)), want: "0-9000 6000-0 12000-0"},
		"management, counted":     {pods: runs(cores), record: one(requesting(0, cores, 400)), want: "4000-0 6000-0 12000-0"},
		"management, not counted": {pods: runs(cores), record: one(requesting(400, "", 0)), want: "4000-0 6000-0 11600-400"},
		// The cluster allows the namespace, and the configuration of the node does not.
		"counted as management, and runs shared": {pods: runs(shared), record: one(requesting(0, cores, 400)), want: "3600-400 6000-0 12000-0"},
		"refused exclusive CPUs":                 {pods: runs(shared), record: one(requesting(2000, guaranteed, 2000)), want: "2000-2000 6000-0 12000-0"},
		"not created yet":                        {pods: runs(""), record: one(requesting(2000, guaranteed, 2000)), want: "4000-0 6000-0 12000-0"},
		"not created, not counted":               {pods: runs(""), record: one(requesting(2000, "", 0)), want: "2000-2000 6000-0 12000-0"},
		"with a device":                          {pods: runs(shared), record: one(requesting(100, "example.com/gpu", 1)), want: "3900-100 6000-0 12000-0"},
		"no request":                             {pods: runs(shared), record: one(requesting(0, "example.com/gpu", 1)), want: "4000-0 6000-0 12000-0"},
		"a pod that has ended":                   {record: one(requesting(500, "", 0)), want: "4000-0 6000-0 12000-0"},
		"pod's own CPU, counted on its first container": {
			pods:   runs(shared),
			record: nodestatus.Record{"u": {Milli: 900, Containers: map[string]nodestatus.Request{"c": requesting(200, shared, 900)}}},
			want:   "4000-0 6000-0 12000-0",
		},
		"pod's own CPU, not counted": {
			pods:   runs(shared),
			record: nodestatus.Record{"u": {Milli: 900, Containers: map[string]nodestatus.Request{"c": requesting(200, "", 0)}}},
			want:   "3100-900 6000-0 12000-0",
		},
		"pod's own CPU, counted on a container without a request": {
			pods:   runs(guaranteed),
			record: nodestatus.Record{"u": {Milli: 4000, Containers: map[string]nodestatus.Request{"c": requesting(0, guaranteed, 4000)}}},
			want:   "4000-0 6000-0 12000-0",
		},
		"pod's own CPU, before its containers are created": {
			pods: []nodestatus.Pod{{UID: "u", Resource: shared, Containers: []nodestatus.Container{in("a", guaranteed)}}},
			record: nodestatus.Record{"u": {Milli: 4000, Containers: map[string]nodestatus.Request{
				"a": requesting(2000, guaranteed, 4000), "b": {},
			}}},
			want: "4000-0 6000-0 12000-0",
		},
		"pod's own CPU, which the node does not hold": {
			pods: []nodestatus.Pod{{UID: "u", Resource: shared, Containers: []nodestatus.Container{in("a", guaranteed), in("b", shared)}}},
			record: nodestatus.Record{"u": {Milli: 4000, Containers: map[string]nodestatus.Request{
				"a": requesting(2000, guaranteed, 4000), "b": {},
			}}},
			want: "2000-2000 6000-0 12000-0",
		},
		"pod's own CPU, held idle": {
			pods: []nodestatus.Pod{{UID: "u", Resource: shared, Rest: guaranteed, Containers: []nodestatus.Container{in("a", guaranteed)}}},
			record: nodestatus.Record{"u": {Milli: 5000, Containers: map[string]nodestatus.Request{
				"a": requesting(3000, guaranteed, 3000),
			}}},
			want: "4000-0 4000-2000 12000-0",
		},
		"two containers in two pools": {
			pods: []nodestatus.Pod{{UID: "u", Resource: shared, Containers: []nodestatus.Container{in("du", guaranteed), in("log", shared)}}},
			record: nodestatus.Record{"u": {Containers: map[string]nodestatus.Request{
				"du": requesting(2000, guaranteed, 2000), "log": requesting(300, "", 0),
			}}},
			want: "3700-300 6000-0 12000-0",
		},
		"a ResourceClaim's CPUs, without a request": {
			pods:   []nodestatus.Pod{{UID: "u", Resource: shared, Containers: []nodestatus.Container{{Name: "c", Claimed: true}}}},
			record: one(requesting(2000, "", 0)),
			want:   "4000-0 6000-0 12000-0",
		},
		"a ResourceClaim's CPUs, beside a container that is not counted": {
			pods: []nodestatus.Pod{{UID: "u", Resource: shared, Containers: []nodestatus.Container{{Name: "c", Claimed: true}, in("log", shared)}}},
			record: nodestatus.Record{"u": {Containers: map[string]nodestatus.Request{
				"c": requesting(2000, "", 0), "log": requesting(300, "", 0),
			}}},
			want: "3700-300 6000-0 12000-0",
		},
		"a ResourceClaim's CPUs, and the rest of spec.resources can be their amount": {
			pods: []nodestatus.Pod{{UID: "u", Resource: shared, Containers: []nodestatus.Container{{Name: "c", Claimed: true}, in("log", shared)}}},
			record: nodestatus.Record{"u": {Milli: 3000, Containers: map[string]nodestatus.Request{
				"c": requesting(1, "", 0), "log": requesting(300, shared, 300),
			}}},
			want: "4000-0 6000-0 12000-0",
		},
		"a ResourceClaim's CPUs, and a container without a request on the rest": {
			pods: []nodestatus.Pod{{UID: "u", Resource: shared, Containers: []nodestatus.Container{{Name: "c", Claimed: true}, in("log", shared)}}},
			record: nodestatus.Record{"u": {Milli: 3000, Containers: map[string]nodestatus.Request{
				"c": requesting(1, "", 0), "log": requesting(0, "", 0),
			}}},
			want: "1001-2999 6000-0 12000-0",
		},
		"a ResourceClaim's CPUs, and a pod pool": {
			pods: []nodestatus.Pod{{UID: "u", Resource: shared, Rest: guaranteed, Containers: []nodestatus.Container{{Name: "c", Claimed: true}, in("log", guaranteed)}}},
			record: nodestatus.Record{"u": {Milli: 3000, Containers: map[string]nodestatus.Request{
				"c": requesting(1, "", 0), "log": requesting(300, guaranteed, 3000),
			}}},
			want: "4000-0 6000-0 12000-0",
		},
		"no record: a ResourceClaim's CPUs": {
			pods: []nodestatus.Pod{{UID: "u", Resource: shared, Containers: []nodestatus.Container{{Name: "c", Claimed: true, Milli: 5000, Presumed: true}}}},
			want: "4000-0 6000-0 12000-0",
		},
		"no record: annotations describe management pods": {
			pods: []nodestatus.Pod{
				{UID: "u", Containers: []nodestatus.Container{{Name: "c", Resource: cores, Milli: 400, Annotated: true}}},
				{UID: "v", Containers: []nodestatus.Container{{Name: "c", Resource: cores, Milli: 300}}},
			},
			want: "4000-0 6000-0 11700-300",
		},
		"no record: other pods count as requesting": {
			pods: []nodestatus.Pod{{UID: "u", Containers: []nodestatus.Container{{Name: "c", Resource: shared, Milli: 5000, Presumed: true}}}},
			want: "5000-0 6000-0 12000-0",
		},
		"the type is off": {pools: []capacity.Pool{{Resource: shared, Milli: 4000}}, pods: runs(shared), record: one(requesting(10, shared, 10)), want: "4000-0"},
	} {
		if c.pools == nil {
			c.pools = pools
		}
		amounts := nodestatus.Advertise(c.pools, c.pods, c.record)
		got := ""
		for _, p := range c.pools {
			i := slices.IndexFunc(amounts, func(a telemetry.NodeResource) bool { return a.Name == p.Resource })
			got += fmt.Sprintf(" %d-%d", amounts[i].Milli, amounts[i].Unaccounted)
		}
		if got != " "+c.want || len(amounts) != len(c.pools) {
			t.Errorf("%s: %s, want %s", name, got[1:], c.want)
		}
	}
}

// TestAdvertiseBounds checks random nodes. The amount covers the requests of running pods, so
// that a restarted kubelet admits them again. It does not exceed the pool if the requests fit.
// New pods fit into the CPUs that pods without a request leave.
func TestAdvertiseBounds(t *testing.T) {
	resources := []string{shared, guaranteed, cores}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var pools []capacity.Pool
		for _, name := range resources[:1+r.IntN(3)] {
			pools = append(pools, capacity.Pool{Resource: name, Milli: r.Int64N(9) * 1000})
		}
		var pods []nodestatus.Pod
		record := nodestatus.Record{}
		used, counted := map[string]int64{}, map[string]int64{}
		for i := range r.IntN(6) {
			where := pools[r.IntN(len(pools))].Resource
			pod := nodestatus.Pod{UID: fmt.Sprint(i), Resource: where}
			asked := nodestatus.Asked{Containers: map[string]nodestatus.Request{}}
			for j := range 1 + r.IntN(3) {
				name := fmt.Sprint(j)
				req := requesting(r.Int64N(3000)+1, where, r.Int64N(2)*r.Int64N(3000))
				pod.Containers = append(pod.Containers, nodestatus.Container{Name: name, Resource: where})
				asked.Containers[name] = req
				used[where] += req.Milli
				counted[where] += req.Extended[where]
			}
			record[pod.UID] = asked
			pods = append(pods, pod)
		}
		amounts := nodestatus.Advertise(pools, pods, record)
		for i, a := range amounts {
			at := slices.IndexFunc(pools, func(p capacity.Pool) bool { return p.Resource == a.Name })
			size, asked := pools[at].Milli, counted[a.Name]
			switch {
			case a.Milli < asked:
				t.Errorf("seed %d: %s: %d advertised, %d requested by running pods", seed, a.Name, a.Milli, asked)
			case a.Milli > max(size, asked):
				t.Errorf("seed %d: %s: %d advertised of a pool of %d with %d requested", seed, a.Name, a.Milli, size, asked)
			case a.Unaccounted < used[a.Name]-asked:
				t.Errorf("seed %d: %s: %d unaccounted, %d used and %d requested", seed, a.Name, a.Unaccounted, used[a.Name], asked)
			case a.Milli > asked && a.Milli-asked > max(size-asked-a.Unaccounted, 0):
				t.Errorf("seed %d: %s: %d available; the pool of %d has %d counted and %d unaccounted", seed, a.Name, a.Milli-asked, size, asked, a.Unaccounted)
			case i > 0 && amounts[i-1].Name >= a.Name:
				t.Errorf("seed %d: %s after %s", seed, a.Name, amounts[i-1].Name)
			}
		}
		shuffled := slices.Clone(pods)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(amounts, nodestatus.Advertise(pools, shuffled, record)); diff != "" {
			t.Errorf("seed %d: pods in another order:\n%s", seed, diff)
		}
	}
}

func TestReadRecord(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		file := filepath.Join(dir, nodestatus.RecordFile)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	want := nodestatus.Record{
		"1a": {
			Milli: 1500,
			Containers: map[string]nodestatus.Request{
				"app": {Milli: 250, Extended: map[string]int64{shared: 250, "example.com/gpu": 1}},
				"log": {},
			},
		},
	}
	// The format of kubelet 1.37.
	got, err := nodestatus.ReadRecord(write(`{"data":"{\"entries\":{\"1a\":{\"ContainerResources\":{\"app\":{\"limits\":{\"cpu\":\"1\",\"example.com/gpu\":\"1\"},` +
		`\"requests\":{\"cpu\":\"250m\",\"memory\":\"64Mi\",\"example.com/gpu\":\"1\",\"openshift.io/shared-cpus\":\"250\"}},\"log\":{}},` +
		`\"PodLevelResources\":{\"requests\":{\"cpu\":\"1500m\"}},\"EmptyDirVolumeLimits\":null}}}","checksum":3203482811}`))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("1.37: %v\n%s", err, diff)
	}
	// The format of kubelet 1.33, without pod-level resources.
	want["1a"] = nodestatus.Asked{Containers: want["1a"].Containers}
	got, err = nodestatus.ReadRecord(write(`{"data":"{\"allocationEntries\":{\"1a\":{\"app\":` +
		`{\"requests\":{\"cpu\":\"250m\",\"example.com/gpu\":\"1\",\"openshift.io/shared-cpus\":\"250\"}},\"log\":{}}}}","checksum":1}`))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("1.33: %v\n%s", err, diff)
	}
	if got, err := nodestatus.ReadRecord(filepath.Join(dir, "none")); got != nil || err != nil {
		t.Errorf("no file: %v, %v", got, err)
	}
	for _, bad := range []string{"", "{", `{"data":"{"}`, `{"data":"[]"}`, "[]"} {
		if got, err := nodestatus.ReadRecord(write(bad)); err == nil {
			t.Errorf("%q: %v, and no error", bad, got)
		}
	}
}
