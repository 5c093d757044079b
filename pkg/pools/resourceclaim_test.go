package pools_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
)

// list returns the CPUs of a list in a test.
func list(text string) cpuset.Set {
	cpus, err := cpuset.Parse(text)
	if err != nil {
		panic(err)
	}
	return cpus
}

// twoNodes is a machine of 16 CPUs: two NUMA nodes of 4 cores with 2 threads. CPU n and n+8 are a core.
var twoNodes = hardware.Machine{Packages: 1, Nodes: 2, L3s: 1, Cores: 4, Threads: 2}

// claimSpec has a list for claims with two cores of each node.
func claimSpec() poolspec.Spec {
	return poolspec.Spec{
		Partitions: []poolspec.Partition{{Type: "management", CPUs: list("0,8"), Namespaces: []string{"kube-system"}}},
		Guaranteed: poolspec.Guaranteed{CPUs: list("1,9"), Claims: poolspec.Claims{CPUs: list("2-3,6-7,10-11,14-15")}},
	}
}

func claimInput(t *testing.T, m hardware.Machine, s poolspec.Spec) pools.Input {
	t.Helper()
	top := m.Topology()
	p, problems := s.Adapt(top)
	if m.Offline.IsEmpty() && len(problems) > 0 {
		t.Fatal(problems)
	}
	return pools.Input{Machine: allocate.New(top), Pools: p}
}

func claim(uid, pod string, containers []string, parts ...pools.ClaimPart) pools.Claim {
	return pools.Claim{UID: uid, Namespace: "radio", Name: uid, PodUID: pod, Parts: parts, Containers: containers}
}

func TestDevices(t *testing.T) {
	whole := allocate.Options{FullPCPUsOnly: true}
	for name, c := range map[string]struct {
		machine hardware.Machine
		list    string
		options allocate.Options
		want    string
	}{
		"two nodes":                   {twoNodes, "2-3,6-7,10-11,14-15", allocate.Options{}, "numa0 2-3,10-11 step 1; numa1 6-7,14-15 step 1"},
		"one node":                    {twoNodes, "6-7", allocate.Options{}, "numa1 6-7 step 1"},
		"whole cores":                 {twoNodes, "2-3,10-11", whole, "numa0 2-3,10-11 step 2"},
		"one owner per core":          {twoNodes, "2-3,10-11", allocate.Options{OneOwnerPerCore: true}, "numa0 2-3,10-11 step 2"},
		"whole cores without threads": {hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 4, Threads: 1}, "1-2", whole, "numa0 1-2 step 1"},
		"a thread is offline": {hardware.Machine{Packages: 1, Nodes: 2, L3s: 1, Cores: 4, Threads: 2, Offline: cpuset.Of(10)},
			"2-3,6-7,10-11,14-15", whole, "numa0 3,11 step 2; numa1 6-7,14-15 step 2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := poolspec.Spec{Guaranteed: poolspec.Guaranteed{Options: c.options, Claims: poolspec.Claims{CPUs: list(c.list)}}}
			in := claimInput(t, c.machine, s)
			var all []string
			for _, d := range in.Pools.Devices(in.Machine) {
				all = append(all, fmt.Sprintf("%s %s step %d", d.Name, d.CPUs, d.Step))
			}
			if got := strings.Join(all, "; "); got != c.want {
				t.Errorf("devices are %s; want %s", got, c.want)
			}
		})
	}
}

// TestClaimedContainers checks where containers of pods with claims run.
func TestClaimedContainers(t *testing.T) {
	in := claimInput(t, twoNodes, claimSpec())
	whole := pools.Resources{Shares: 1024, Quota: 100000, Period: 100000}
	in.Pods = []pools.Pod{
		{UID: "p", Namespace: "radio", Name: "du", QoS: pools.QoSGuaranteed, Resources: pools.Resources{Shares: 4096, Quota: 400000, Period: 100000}, Containers: []pools.Container{
			{ID: "alone", Name: "alone", State: pools.Running, Resources: whole},
			{ID: "first", Name: "first", State: pools.Running, Resources: whole},
			{ID: "second", Name: "second", State: pools.Created, Resources: pools.Resources{Shares: 2}},
			{ID: "bare", Name: "bare", State: pools.Running, Resources: whole},
		}},
		{UID: "other", Namespace: "radio", Name: "other", QoS: pools.QoSBurstable, Containers: []pools.Container{{ID: "first-2", Name: "first", State: pools.Running}}},
	}
	in.Claims = []pools.Claim{
		claim("one", "p", []string{"alone"}, pools.ClaimPart{Request: "cpus", Device: "numa1", CPUs: 2}),
		claim("two", "p", []string{"alone"}, pools.ClaimPart{Request: "cpus", Device: "numa0", CPUs: 1}),
		claim("both", "p", []string{"first", "second"}, pools.ClaimPart{Request: "cpus", Device: "numa0", CPUs: 2}),
	}
	plan := checkedBuild(t, in)
	want := map[string]string{
		"alone":   "guaranteed 3,6,14 exclusive unlimited Claim", // both claims
		"first":   "guaranteed 2,10 unlimited Claim",
		"second":  "guaranteed 2,10 unlimited Claim",
		"bare":    "guaranteed 1 exclusive unlimited Exclusive", // as in a pod without claims; the pod reserves no other CPU
		"first-2": "shared 0,4-5,8,12-13 Burstable",
	}
	got := make(map[string]string)
	for _, c := range plan.Containers() {
		text := fmt.Sprintf("%s %s", c.Pool, c.CPUs)
		if c.Exclusive {
			text += " exclusive"
		}
		if c.Unlimited {
			text += " unlimited"
		}
		got[c.ID] = text + " " + string(c.Reason.Code)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("placements (-want +got):\n%s", d)
	}
	if free := plan.Free.String(); free != "9" {
		t.Errorf("free CPUs of the guaranteed pool are %s; want 9", free)
	}
}

// TestClaimsKeepCPUs checks that a claim keeps its CPUs over hotplug and changes of the configuration.
func TestClaimsKeepCPUs(t *testing.T) {
	in := claimInput(t, twoNodes, claimSpec())
	in.Pods = []pools.Pod{{UID: "p", QoS: pools.QoSBurstable, Containers: []pools.Container{{ID: "c", Name: "c", State: pools.Running}}}}
	in.Claims = []pools.Claim{claim("one", "p", []string{"c"}, pools.ClaimPart{Request: "cpus", Device: "numa0", CPUs: 2})}
	plan := checkedBuild(t, in)
	if got := plan.Claims[0].CPUs.String(); got != "2,10" {
		t.Fatalf("the claim has %s; want 2,10", got)
	}
	moved := claimSpec() // the configuration gives the core to another pool
	moved.Guaranteed.CPUs, moved.Guaranteed.Claims.CPUs = list("2,10"), list("3,11")
	none := claimSpec()
	none.Guaranteed.Claims = poolspec.Claims{}
	offline := twoNodes
	offline.Offline = cpuset.Of(10)
	for name, c := range map[string]struct {
		machine   hardware.Machine
		spec      poolspec.Spec
		cpus      string
		away      string
		shared    string
		problems  []pools.Code
		guarantee string
	}{
		"same":           {twoNodes, claimSpec(), "2,10", "", "0,4-5,8,12-13", nil, "1,9"},
		"offline":        {offline, claimSpec(), "2", "10", "0,4-5,8,12-13", []pools.Code{pools.CodeOffline}, "1,9"},
		"other list":     {twoNodes, moved, "2,10", "", "0-1,4-9,12-15", []pools.Code{pools.CodeOutsideList}, ""},
		"claims are off": {twoNodes, none, "2,10", "", "0,3-8,11-15", []pools.Code{pools.CodeOutsideList}, "1,9"},
	} {
		t.Run(name, func(t *testing.T) {
			now := claimInput(t, c.machine, c.spec)
			now.Pods, now.Claims, now.Previous = in.Pods, in.Claims, plan.Assignments
			after := checkedBuild(t, now)
			p := after.Claims[0]
			if p.CPUs.String() != c.cpus || p.Away.String() != c.away || after.Shared.String() != c.shared || after.Free.String() != c.guarantee {
				t.Errorf("claim %s away %q, shared %s, free %s; want %s, %q, %s, %s", p.CPUs, p.Away, after.Shared, after.Free, c.cpus, c.away, c.shared, c.guarantee)
			}
			var codes []pools.Code
			for _, p := range after.Problems {
				codes = append(codes, p.Code)
			}
			if !slices.Equal(codes, c.problems) {
				t.Errorf("problems %v; want %v", codes, c.problems)
			}
			again := claimInput(t, twoNodes, claimSpec())
			again.Pods, again.Claims, again.Previous = in.Pods, in.Claims, after.Assignments
			if back := checkedBuild(t, again); !back.Claims[0].CPUs.Equal(plan.Claims[0].CPUs) {
				t.Errorf("with the first configuration the claim has %s; want %s", back.Claims[0].CPUs, plan.Claims[0].CPUs)
			}
		})
	}
}

func TestClaimRefusals(t *testing.T) {
	whole := claimSpec()
	whole.Guaranteed.Options.FullPCPUsOnly = true
	for name, c := range map[string]struct {
		spec  poolspec.Spec
		parts []pools.ClaimPart
		want  string
	}{
		"too many":      {claimSpec(), []pools.ClaimPart{{Device: "numa0", CPUs: 5}}, "gets no CPUs, because only 4 of 4 CPUs of device numa0 are free, for a request of 5"},
		"one of two":    {claimSpec(), []pools.ClaimPart{{Request: "a", Device: "numa0", CPUs: 3}, {Request: "b", Device: "numa0", CPUs: 2}}, "gets no CPUs, because only 1 of 4 CPUs of device numa0 are free, for a request of 2"},
		"no device":     {claimSpec(), []pools.ClaimPart{{Device: "numa7", CPUs: 1}}, "gets no CPUs, because this node has no device numa7 with online CPUs of guaranteed.claims"},
		"none":          {claimSpec(), []pools.ClaimPart{{Device: "numa0"}}, "gets no CPUs, because device numa0 gives multiples of 1 CPU"},
		"part of core":  {whole, []pools.ClaimPart{{Device: "numa0", CPUs: 3}}, "gets no CPUs, because device numa0 gives multiples of 2 CPUs"},
		"negative":      {claimSpec(), []pools.ClaimPart{{Device: "numa0", CPUs: -1}}, "gets no CPUs, because device numa0 gives multiples of 1 CPU"},
		"no device: no": {poolspec.Spec{}, []pools.ClaimPart{{Device: "numa0", CPUs: 1}}, "gets no CPUs, because this node has no device numa0 with online CPUs of guaranteed.claims"},
	} {
		t.Run(name, func(t *testing.T) {
			in := claimInput(t, twoNodes, c.spec)
			in.Claims = []pools.Claim{claim("one", "p", nil, c.parts...)}
			plan := checkedBuild(t, in)
			if p := plan.Claims[0]; p.Refused == nil || p.Reason.Text != c.want || !p.CPUs.IsEmpty() || len(plan.Assignments) > 0 {
				t.Errorf("claim has %s: %s; want none: %s", p.CPUs, p.Reason.Text, c.want)
			}
		})
	}
}

func TestLentCPUs(t *testing.T) {
	s := claimSpec()
	s.Guaranteed.Claims.Lend = true
	in := claimInput(t, twoNodes, s)
	if got := checkedBuild(t, in).Shared.String(); got != "0,2-8,10-15" {
		t.Errorf("without claims the shared pool is %s; want 0,2-8,10-15", got)
	}
	in.Claims = []pools.Claim{claim("one", "p", nil, pools.ClaimPart{Device: "numa1", CPUs: 4})}
	if got := checkedBuild(t, in).Shared.String(); got != "0,2-5,8,10-13" {
		t.Errorf("with a claim the shared pool is %s; want 0,2-5,8,10-13", got)
	}
}

// liveClaims lets claims begin and end on a node in random steps. Claims that fit into the capacities
// of the devices are never refused, no CPU of a claim moves, and no other container runs on one.
func liveClaims(t *testing.T, bytes []byte) {
	w := newWorld(bytes)
	w.machine.Offline = cpuset.Set{}
	w.build()
	var spec poolspec.Spec
	for tries := 0; ; tries++ {
		spec = w.spec()
		for id := range spec.Guaranteed.CPUs.Union(*spec.Shared).All() {
			if w.next(2) == 0 {
				spec.Guaranteed.Claims.CPUs = spec.Guaranteed.Claims.CPUs.Union(w.top.ThreadSiblings(id))
			}
		}
		cut := func(s *cpuset.Set) { *s = s.Difference(spec.Guaranteed.Claims.CPUs) }
		cut(spec.Shared)
		cut(&spec.Guaranteed.CPUs)
		cut(&spec.Partitions[0].CPUs)
		spec.Guaranteed.Claims.Lend = w.next(2) == 1
		p, err := spec.Resolve(w.top)
		if w.in.Pools = p; err == nil {
			break
		}
		if tries == 20 {
			return
		}
	}
	var before pools.Plan
	for steps := 0; len(w.bytes) > 0 && steps < 60; steps++ {
		what := w.claimStep(spec)
		w.in.Previous = before.Assignments
		after := pools.Build(w.in)
		for _, err := range invariants.CheckBuild(after, w.in) {
			t.Error(err)
		}
		w.checkClaims(t, before, after)
		if t.Failed() {
			t.Fatalf("step %d: %s, before:\n%s\nafter:\n%s\n%+v\n%+v", steps, what, format(before), format(after), w.in.Claims, w.in.Pods)
		}
		before = after
	}
}

// claimStep lets one thing happen to claims, CPUs or containers, and returns its name.
func (w *world) claimStep(spec poolspec.Spec) string {
	p := w.pod()
	devices := w.in.Pools.Devices(w.in.Machine)
	switch op := w.next(8); {
	case p == nil || op == 0:
		w.createPod()
		return "create pod"
	case op == 1:
		w.startContainer(p)
		return "start container"
	case op == 2:
		w.machine.Offline = cpuset.Set{}
		for range w.next(3) {
			w.machine.Offline = w.machine.Offline.Union(cpuset.Of(1 + w.next(max(1, w.top.Present.Len()-1))))
		}
		w.machine.Offline = w.machine.Offline.Intersection(w.top.Present).Difference(cpuset.Of(0))
		w.build()
		w.in.Pools, _ = spec.Adapt(w.top)
		return "hotplug"
	case op == 3 && len(w.in.Claims) > 0:
		w.in.Claims = slices.Clone(w.in.Claims)
		i := w.next(len(w.in.Claims))
		w.in.Claims = slices.Delete(w.in.Claims, i, i+1)
		return "claim ends"
	case op == 4 && len(w.in.Claims) > 0:
		w.in.Claims = slices.Clone(w.in.Claims)
		c := &w.in.Claims[w.next(len(w.in.Claims))]
		c.Containers = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(c.Containers), string(rune('a'+w.next(3)))))))
		return "container uses claim"
	case len(devices) == 0:
		return "nothing"
	}
	w.ids++
	c := pools.Claim{UID: fmt.Sprint("claim-", w.next(4), w.ids), PodUID: p.UID}
	for i := range 1 + w.next(2) {
		d := devices[w.next(len(devices))]
		c.Parts = append(c.Parts, pools.ClaimPart{Request: fmt.Sprint(i), Device: d.Name, CPUs: d.Step * (1 + w.next(4))})
	}
	w.in.Claims = append(slices.Clone(w.in.Claims), c)
	return "claim is prepared"
}

// checkClaims checks the step from before to after. It takes back claims that exceed the capacity.
func (w *world) checkClaims(t *testing.T, before, after pools.Plan) {
	t.Helper()
	capacity := make(map[string]int)
	for _, d := range w.in.Pools.Devices(w.in.Machine) {
		capacity[d.Name] = d.CPUs.Difference(after.Theirs).Len()
	}
	for _, c := range w.in.Claims {
		for _, part := range c.Parts {
			capacity[part.Device] -= part.CPUs
		}
	}
	fits := func(p *pools.ClaimPlan) bool {
		return !slices.ContainsFunc(p.Parts, func(part pools.ClaimPartPlan) bool { return capacity[part.Device] < 0 })
	}
	had := make(map[pools.Key]cpuset.Set)
	for _, a := range before.Assignments {
		had[a.Key] = a.CPUs.Union(a.Away)
	}
	for _, a := range after.Assignments {
		if cpus, known := had[a.Key]; a.Claim != "" && known && !cpus.Equal(a.CPUs.Union(a.Away)) {
			t.Errorf("claim %s had %s, and has %s; want no move", a.Claim, cpus, a.CPUs.Union(a.Away))
		}
	}
	for i := range after.Claims {
		p := &after.Claims[i]
		if p.Refused == nil {
			continue
		}
		if fits(p) && after.Theirs.IsEmpty() {
			t.Errorf("claim %s is refused: %s; want CPUs, because the sums are within the capacities", p.UID, p.Refused.Why)
		}
		w.in.Claims = slices.DeleteFunc(slices.Clone(w.in.Claims), func(c pools.Claim) bool { return c.UID == p.UID })
	}
}

func FuzzClaims(f *testing.F) {
	f.Add([]byte(strings.Repeat("claims begin and end", 20)))
	f.Add([]byte(strings.Repeat("\x05\x06\x07\x01\x04\x02\x03", 50)))
	f.Fuzz(liveClaims)
}

// TestClaimLife lets claims live on many nodes, the same ones each time.
func TestClaimLife(t *testing.T) {
	for seed := range 10 * *lives {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		bytes := make([]byte, 600)
		for i := range bytes {
			bytes[i] = byte(r.Uint32())
		}
		liveClaims(t, bytes)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
