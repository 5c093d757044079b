package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
)

// twoNodes are a node with pools and one without, and a pod that asks for some.
func twoNodes() map[string]string {
	return map[string]string{
		"/api/v1/nodes": "NodeList\n" +
			`{"metadata":{"name":"edge-1"},"status":{"allocatable":{"cpu":"8","management.workload.openshift.io/cores":"2k","openshift.io/shared-cpus":"2k","openshift.io/guaranteed-cpus":"4k"},"conditions":[{"type":"CPUPoolsReady","status":"False","message":"1 cgroup is not in the desired state"}]}}` + "\n" +
			`{"metadata":{"name":"plain"},"status":{"allocatable":{"cpu":"8"}}}`,
		"/api/v1/pods": "PodList\n" +
			`{"metadata":{"name":"du-0","namespace":"ran"},"spec":{"nodeName":"edge-1","containers":[{"name":"phy","resources":{"requests":{"openshift.io/guaranteed-cpus":"2500"}}}]},"status":{"phase":"Running"}}`,
		"/api/v1/namespaces/cpupoold/pods": "PodList\n" +
			`{"metadata":{"name":"other","namespace":"cpupoold"},"spec":{"nodeName":"edge-1","containers":[{"name":"c"}]},"status":{"phase":"Running"}}`,
	}
}

// withClaims adds CPUs for ResourceClaims on the first node.
func withClaims(lists map[string]string) map[string]string {
	lists["/apis/resource.k8s.io/v1/resourceslices"] = "ResourceSliceList\n" +
		`{"metadata":{"name":"s"},"spec":{"driver":"cpu.cpupoold.io","nodeName":"edge-1","pool":{"name":"edge-1","generation":1,"resourceSliceCount":1},"devices":[` +
		`{"name":"numa0","capacity":{"cpu.cpupoold.io/cpus":{"value":"8"}},"taints":[{"key":"cpu.cpupoold.io/away","effect":"NoSchedule"}]}]}}`
	lists["/apis/resource.k8s.io/v1/resourceclaims"] = "ResourceClaimList\n" +
		`{"metadata":{"name":"du-0-cpus-x","namespace":"ran"},"status":{"allocation":{"devices":{"results":[{"request":"r","driver":"cpu.cpupoold.io","pool":"edge-1","device":"numa0","shareID":"s","consumedCapacity":{"cpu.cpupoold.io/cpus":"4"}}]}},` +
		`"reservedFor":[{"resource":"pods","name":"du-0","uid":"u"}],"devices":[{"driver":"cpu.cpupoold.io","pool":"edge-1","device":"numa0","shareID":"s"}]}}` + "\n" +
		`{"metadata":{"name":"du-1-cpus-y","namespace":"ran"},"status":{"allocation":{"devices":{"results":[{"request":"r","driver":"cpu.cpupoold.io","pool":"edge-1","device":"numa0","shareID":"t","consumedCapacity":{"cpu.cpupoold.io/cpus":"2"}}]}}}}`
	return lists
}

// TestNodesWithClaims checks the CPUs for claims, and a cluster without the API.
func TestNodesWithClaims(t *testing.T) {
	config := apiServer(t, withClaims(twoNodes()))
	code, out, errs := kubectl(t, "nodes", "--kubeconfig", config)
	want := `NODE    POOL        CPUS  REQUESTED  FREE  HEALTH
edge-1  management  2     0          2     not ready
        shared      2     0          2
        guaranteed  4     2.5        1.5
        claims      8     6          2     away
plain   -           -     -          -     no pools
edge-1: 1 cgroup is not in the desired state
edge-1: claims: 4 of 6 allocated CPUs are prepared, accounting reserved; cpupool-dra gets no answer of the daemon, so the scheduler allocates no more
`
	if diff := cmp.Diff(want, out); code != exitOK || diff != "" || errs != "" {
		t.Errorf("exit %d, %s (-want +got):\n%s", code, errs, diff)
	}
	code, out, errs = kubectl(t, "describe", "node", "edge-1", "--kubeconfig", config, "--daemon=false")
	want = `
claims: 8 CPUs, 6 allocated, 4 prepared, 2 free (accounting reserved)
  numa0  8  6 allocated  4 prepared  away
  ran/du-0-cpus-x  4  du-0  prepared
  ran/du-1-cpus-y  2  -     allocated
`
	if code != exitOK || !strings.HasSuffix(out, want) {
		t.Errorf("exit %d, %s; want %s at the end of\n%s", code, errs, want, out)
	}
	code, out, _ = kubectl(t, "nodes", "--kubeconfig", config, "-o", "json")
	if code != exitOK || !strings.Contains(out, `"accounting": "reserved"`) {
		t.Errorf("exit %d; want 0 and JSON with claims:\n%s", code, out)
	}

	// A driver without devices, next to a claim that has its CPUs; and a node without another pool.
	emptied := withClaims(twoNodes())
	emptied["/apis/resource.k8s.io/v1/resourceslices"] = "ResourceSliceList\n" +
		`{"metadata":{"name":"s"},"spec":{"driver":"cpu.cpupoold.io","nodeName":"edge-1","pool":{"name":"edge-1","generation":2,"resourceSliceCount":1}}}` + "\n" +
		`{"metadata":{"name":"p"},"spec":{"driver":"cpu.cpupoold.io","nodeName":"plain","pool":{"name":"plain","generation":1,"resourceSliceCount":1},"devices":[` +
		`{"name":"numa0","capacity":{"cpu.cpupoold.io/cpus":{"value":"8"}},"taints":[{"key":"cpu.cpupoold.io/away","effect":"NoSchedule"}]}]}}`
	code, out, errs = kubectl(t, "nodes", "--kubeconfig", apiServer(t, emptied))
	want = `NODE    POOL        CPUS  REQUESTED  FREE  HEALTH
edge-1  management  2     0          2     not ready
        shared      2     0          2
        guaranteed  4     2.5        1.5
        claims      0     6          0
plain   claims      8     0          8     away
edge-1: 1 cgroup is not in the desired state
edge-1: claims: 4 of 6 allocated CPUs are prepared, accounting unknown; cpupool-dra publishes no devices of the node
plain: claims: 0 of 0 allocated CPUs are prepared, accounting reserved; cpupool-dra gets no answer of the daemon, so the scheduler allocates no more
`
	if diff := cmp.Diff(want, out); code != exitOK || diff != "" {
		t.Errorf("without devices: exit %d, %s (-want +got):\n%s", code, errs, diff)
	}

	lists := twoNodes()
	for answer, note := range map[string]string{"404": "", "": "note: ResourceClaims are not shown: read /apis/resource.k8s.io/v1/resourceslices"} {
		lists["/apis/resource.k8s.io/v1/resourceslices"] = answer
		code, out, errs := kubectl(t, "nodes", "--kubeconfig", apiServer(t, lists))
		if code != exitOK || strings.Contains(out, "claims") || !strings.Contains(errs, note) || note == "" && errs != "" {
			t.Errorf("without claims (%q): exit %d, %s; want 0, %q and no claims in\n%s", answer, code, errs, note, out)
		}
	}
}

func kubectl(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = execute(streams{strings.NewReader(""), &o, &e}, args)
	return code, o.String(), e.String()
}

func TestNodes(t *testing.T) {
	config := apiServer(t, twoNodes())
	code, out, errs := kubectl(t, "nodes", "--kubeconfig", config)
	want := `NODE    POOL        CPUS  REQUESTED  FREE  HEALTH
edge-1  management  2     0          2     not ready
        shared      2     0          2
        guaranteed  4     2.5        1.5
plain   -           -     -          -     no pools
edge-1: 1 cgroup is not in the desired state
`
	if diff := cmp.Diff(want, out); code != exitOK || diff != "" {
		t.Errorf("exit %d, %s (-want +got):\n%s", code, errs, diff)
	}
	code, out, _ = kubectl(t, "nodes", "--kubeconfig", config, "-o", "json")
	if code != exitOK || !strings.Contains(out, `"freeMilli": 1500`) || !strings.Contains(out, `"version": 1`) {
		t.Errorf("exit code = %d; want 0 and JSON:\n%s", code, out)
	}
}

func TestDescribe(t *testing.T) {
	config := apiServer(t, twoNodes())
	code, out, errs := kubectl(t, "describe", "node", "edge-1", "--kubeconfig", config, "--daemon=false")
	want := `Node     edge-1
Health   not ready
Message  1 cgroup is not in the desired state

management: 2 CPUs, 0 requested, 2 free (management.workload.openshift.io/cores)

shared: 2 CPUs, 0 requested, 2 free (openshift.io/shared-cpus)

guaranteed: 4 CPUs, 2.5 requested, 1.5 free (openshift.io/guaranteed-cpus)
  ran/du-0  2.5
`
	if diff := cmp.Diff(want, out); code != exitOK || diff != "" {
		t.Errorf("exit %d, %s (-want +got):\n%s", code, errs, diff)
	}
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"describe", "node", "nobody", "--kubeconfig", config}, exitError, "node \"nobody\" not found"},
		{[]string{"describe", "pod", "x", "--kubeconfig", config}, exitUsage, "give node, and the name of one"},
		{[]string{"describe", "node", "edge-1", "--kubeconfig", config}, exitError, "no pod of a daemon runs there"},
		{[]string{"top", "--kubeconfig", config}, exitError, "no daemon's pod runs (app.kubernetes.io/name=cpupoold in namespace cpupoold)"},
		{[]string{"top", "edge-1", "--kubeconfig", config}, exitError, "node edge-1: no pod of a daemon runs there"},
		{[]string{"top", "--interval", "1ms", "--kubeconfig", config}, exitUsage, "give a time from 100ms to 1h"},
		{[]string{"nodes", "-o", "yaml", "--kubeconfig", config}, exitUsage, "write text or json"},
		{[]string{"serve", "--node", "edge-1", "--svg", "-", "--kubeconfig", config}, exitError, "no pod of a daemon runs there"},
		{[]string{"top", "--daemon-namespace", "elsewhere", "--kubeconfig", config}, exitError, "you may not list this"},
	} {
		if code, _, errs := kubectl(t, test.args...); code != test.code || !strings.Contains(errs, test.want) {
			t.Errorf("%v: exit %d, %s; want %d, %q", test.args, code, errs, test.code, test.want)
		}
	}
}

func TestUsageOf(t *testing.T) {
	s := &inspect.Status{CPUs: []inspect.CPU{
		{ID: 0, Online: true, Pool: "management", Type: "management"}, {ID: 1, Online: true, Pool: "shared"},
		{ID: 2, Online: true, Pool: "guaranteed", Owner: "ran/du-0/phy"}, {ID: 3, Online: true, Pool: "guaranteed"},
		{ID: 4, Pool: "guaranteed"}, {ID: 5, Online: true},
	}}
	var out bytes.Buffer
	rows := usageOf("edge-1", s, map[int]float64{0: 0.25, 2: 1, 4: 1, 5: 1}, true)
	if err := layout.Print(&out, func(w *layout.Writer) { printUsage(w, rows) }); err != nil {
		t.Fatal(err)
	}
	want := `NODE    POOL        CPUS  BUSY  %    OWNER
edge-1  management  0     0.25  25   -
        shared      1     0.00  0    -
        guaranteed  2-3   1.00  50   -
        guaranteed  2     1.00  100  ran/du-0/phy
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if rows := usageOf("edge-1", s, nil, false); len(rows) != 3 {
		t.Errorf("%d rows; want one of each pool", len(rows))
	}
}

// TestUsageOfClaims checks that CPUs for ResourceClaims follow the other pools, and that a claim is an owner.
func TestUsageOfClaims(t *testing.T) {
	s := &inspect.Status{CPUs: []inspect.CPU{
		{ID: 0, Online: true, Pool: inspect.ClaimedPool, Use: "owned", Owner: "claim ran/cpus"},
		{ID: 1, Online: true, Pool: inspect.ClaimedPool, Use: "unused"},
		{ID: 2, Online: true, Pool: inspect.Guaranteed, Use: "free"},
		{ID: 3, Pool: inspect.ClaimedPool},
	}}
	var got []string
	for _, r := range usageOf("edge-1", s, map[int]float64{0: 0.5}, true) {
		got = append(got, r.Pool+" "+r.CPUs.String()+" "+r.Owner)
	}
	if d := cmp.Diff([]string{"guaranteed 2 ", "claims 0-1 ", "claims 0 claim ran/cpus"}, got); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
}
