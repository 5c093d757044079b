package view_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// withClaims returns a node on which containers first and second of pod du share claim both, and no
// container uses claim idle yet. CPU 7 is free.
func withClaims(t *testing.T, yaml string) (view.Node, *view.Snapshot) {
	t.Helper()
	n := nodeOf(t, yaml, pools.Plan{})
	in := pools.Input{Machine: n.Settings.Machine, Pools: n.Settings.Pools, Names: n.Settings.Names}
	in.Pods = []pools.Pod{{UID: "u", Namespace: "ran", Name: "du", QoS: pools.QoSBurstable, Containers: []pools.Container{
		{ID: "1", Name: "first", State: pools.Running}, {ID: "2", Name: "second", State: pools.Running}, {ID: "3", Name: "log", State: pools.Running},
	}}}
	in.Claims = []pools.Claim{
		{UID: "uid-both", Namespace: "ran", Name: "both", PodUID: "u", Containers: []string{"first", "second"}, Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa1", CPUs: 1}}},
		{UID: "uid-idle", Namespace: "ran", Name: "idle", PodUID: "u", Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa1", CPUs: 1}}},
	}
	*n.Plan = pools.Build(in)
	s := &view.Snapshot{Settings: *n.Settings, Decision: desired.Decision{Plan: *n.Plan, Input: in}, Planned: true, Problems: n.Plan.Problems, History: history.New().Snapshot(), View: &telemetry.View{Pools: n.PoolMetrics(cpuset.Set{})}}
	s.View.Containers, _ = n.Containers(map[string]cgroup.Path{}, nil)
	return n, s
}

func answersOf(s *view.Snapshot) *view.Answers {
	return view.NewAnswers(func() *view.Snapshot { return s }, nil, telemetry.Build{}, "", "")
}

// TestStatusOfClaims checks the pool, the devices, the claims and the CPUs of a status.
func TestStatusOfClaims(t *testing.T) {
	lending := strings.Replace(nodefixture.ClaimsYAML, "{cpus: 5-7}", "{cpus: 5-7, idle: shared}", 1)
	for name, c := range map[string]struct {
		yaml, pool, use, settings string
	}{
		"unused": {nodefixture.ClaimsYAML, "5-7 owned 5-6 free 7 lent  containers 2", "unused", "guaranteed.claims.cpus 5-7"},
		"lent":   {lending, "5-7 owned 5-6 free 7 lent 7 containers 2", "lent", "guaranteed.claims.cpus 5-7, guaranteed.claims.idle shared"},
	} {
		t.Run(name, func(t *testing.T) {
			_, snapshot := withClaims(t, c.yaml)
			s := answersOf(snapshot).Status()
			pool, guaranteed := s.Pools[len(s.Pools)-1], s.Pools[len(s.Pools)-2]
			text := pool.CPUs.String() + " owned " + pool.Owned.String() + " free " + pool.Free.String() + " lent " + pool.Lent.String()
			if text += map[bool]string{true: " containers 2"}[pool.Containers == 2]; pool.Name != inspect.ClaimedPool || text != c.pool {
				t.Errorf("pool %s %s; want claims %s", pool.Name, text, c.pool)
			}
			if guaranteed.Name != inspect.Guaranteed || guaranteed.Containers != 0 || !guaranteed.Owned.IsEmpty() || guaranteed.Free.String() != "3-4" {
				t.Errorf("guaranteed pool %+v; want no owner and no container", guaranteed)
			}
			if d := s.Devices; len(d) != 1 || d[0].Name != "numa1" || d[0].CPUs.String() != "5-7" || d[0].Free.String() != "7" || d[0].Step != 1 {
				t.Errorf("devices %+v; want numa1 with CPU 7 free", d)
			}
			both := inspect.Claim{UID: "uid-both", Namespace: "ran", Name: "both", PodUID: "u", Pod: "ran/du", Containers: []string{"first", "second"}, CPUs: cpuset.Of(5),
				Code: "Claim", Reason: "1 CPU, as the scheduler has allocated", Parts: []inspect.ClaimPart{{Request: "cpus", Device: "numa1", CPUs: cpuset.Of(5)}}}
			if len(s.Claims) != 2 {
				t.Fatalf("claims %+v; want two", s.Claims)
			}
			if d := cmp.Diff(both, s.Claims[0]); d != "" {
				t.Errorf("claim (-want +got):\n%s", d)
			}
			uses := make(map[int]string)
			for _, cpu := range s.CPUs[5:] {
				uses[cpu.ID] = strings.TrimSpace(cpu.Pool + " " + cpu.Use + " " + cpu.Owner)
			}
			want := map[int]string{5: "claims owned claim ran/both", 6: "claims owned claim ran/idle", 7: "claims " + c.use}
			if d := cmp.Diff(want, uses); d != "" {
				t.Errorf("CPUs (-want +got):\n%s", d)
			}
			claims := make(map[string]string)
			for i := range s.Containers {
				claims[s.Containers[i].Name] = strings.Join(s.Containers[i].Claims, ",")
			}
			if d := cmp.Diff(map[string]string{"first": "ran/both", "second": "ran/both", "log": ""}, claims); d != "" {
				t.Errorf("claims of containers (-want +got):\n%s", d)
			}
			var settings []string
			for _, x := range s.Config.Settings {
				if strings.HasPrefix(x.Key, "guaranteed.claims") {
					settings = append(settings, x.Key+" "+x.Value)
				}
			}
			if got := strings.Join(settings, ", "); got != c.settings {
				t.Errorf("settings %s; want %s", got, c.settings)
			}
		})
	}
}

// TestExplainClaims checks the explanation of a container with a claim, and of a claim by its names.
func TestExplainClaims(t *testing.T) {
	_, snapshot := withClaims(t, nodefixture.ClaimsYAML)
	explain := answersOf(snapshot).Explain
	e, err := explain("ran/du/first")
	if err != nil || len(e.Subjects) != 1 {
		t.Fatalf("explanation %+v, %v; want one subject", e, err)
	}
	s := e.Subjects[0]
	if len(s.Rules) != 1 || s.Rules[0].Name != "Claim" || !s.Rules[0].Met || len(s.Changes)+len(s.Candidates) > 0 || len(s.Claims) != 1 || s.Claims[0].Name != "both" {
		t.Errorf("subject %+v; want rule Claim, claim both and no changes", s)
	}
	if want := "container first of du runs on exclusive CPUs that containers of its pod share, because it uses ResourceClaim both."; s.Sentence != want {
		t.Errorf("sentence %q; want %q", s.Sentence, want)
	}
	for name, want := range map[string]string{"ran/both": "first second", "uid-both": "first second", "ran/idle": "", "uid-idle": "", "ran/du": "first log second"} {
		e, err := explain(name)
		if err != nil {
			t.Errorf("%s: %v; want an explanation", name, err)
			continue
		}
		var names []string
		for i := range e.Subjects {
			names = append(names, e.Subjects[i].Container.Name)
		}
		if got := strings.Join(names, " "); got != want || (want == "") != (len(e.Notes) == 1) {
			t.Errorf("%s explains %q with notes %q; want %q", name, got, e.Notes, want)
		}
	}
	if _, err := explain("ran/none"); err == nil {
		t.Error("an unknown name has an explanation; want an error")
	}
}

// TestMetricsOfClaims checks the numbers of claims and CPUs.
func TestMetricsOfClaims(t *testing.T) {
	n, _ := withClaims(t, nodefixture.ClaimsYAML)
	claims := func() *telemetry.Claims { return n.Claims() }
	want := &telemetry.Claims{Used: 1, Prepared: 1, Devices: map[string]telemetry.DeviceCPUs{"numa1": {Allocated: 2, Free: 1}}}
	if d := cmp.Diff(want, claims()); d != "" {
		t.Errorf("claims (-want +got):\n%s", d)
	}
	away := &n.Plan.Claims[0]
	away.Parts[0].Away, away.Parts[0].On = away.Parts[0].On, cpuset.Set{}
	n.Settings.Pools.Claims.Away = cpuset.Of(8).Union(away.Parts[0].Away)
	want.Devices = map[string]telemetry.DeviceCPUs{"numa1": {Allocated: 1, Free: 1, Offline: 1}, "": {Offline: 1}}
	if d := cmp.Diff(want, claims()); d != "" {
		t.Errorf("claims with offline CPUs (-want +got):\n%s", d)
	}
	if none := nodeOf(t, nodefixture.PoolsYAML, pools.Plan{}).Claims(); none != nil {
		t.Errorf("claims %+v on a node without CPUs for claims; want nil", none)
	}
}

// TestHistoryOfClaims checks the events of a claim that begins, is used and ends.
func TestHistoryOfClaims(t *testing.T) {
	_, snapshot := withClaims(t, nodefixture.ClaimsYAML)
	l := view.NewHistoryLog(time.Now)
	used := snapshot.Plan
	prepared := used
	prepared.Claims = []pools.ClaimPlan{used.Claims[0]}
	prepared.Claims[0].Containers = nil
	for _, step := range [][2]*pools.Plan{{{}, &prepared}, {&prepared, &used}, {&used, &used}, {&used, {Pods: used.Pods}}} {
		l.NotePlan(step[0], step[1])
	}
	var got []string
	for _, e := range l.Snapshot().Select(history.Query{About: "ran/both"}) {
		got = append(got, strings.Join([]string{string(e.Kind), e.Pod, e.Container, e.Before, e.Value}, "|"))
	}
	want := []string{"claim|ran/du|||5", "claim|ran/du|first,second|5|5", "claim|ran/du||5|"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}
