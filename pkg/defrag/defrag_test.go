package defrag_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// twoNodes has 4 cores of 2 threads on each of two nodes: 0-7 and 8-15.
func twoNodes() machine { return machine{packages: 2, nodes: 1, l3s: 1, cores: 4, threads: 2} }

// caches has one node with 4 L3 groups of 2 cores of 2 threads: 0-3, 4-7, 8-11, 12-15.
func caches() machine { return machine{packages: 1, nodes: 1, l3s: 4, cores: 2, threads: 2} }

func TestMoves(t *testing.T) {
	for _, c := range []struct {
		name  string
		scene *scene
		want  []string
	}{
		{"no owners", newScene(twoNodes(), "2-15"), nil},
		{"all as well as can be", newScene(twoNodes(), "2-15").owner("2-5").owner("8").owner("10-11"), nil},
		{"split cores, and whole ones free", newScene(twoNodes(), "2-15").owner("2,4"), []string{"default/a/app 2,4 → 2-3"}},
		{"two nodes, and room on one", newScene(twoNodes(), "2-15").owner("6-9").owner("2-3"), []string{"default/a/app 6-9 → 4-7"}},
		{"not to another node for nothing", newScene(twoNodes(), "2-15").owner("2,4").owner("3").owner("5").owner("6-7"), nil},
		{"nor among others", newScene(twoNodes(), "0-7").owner("0,2").owner("1").owner("3").owner("4").owner("6-7"), nil},
		{"fixed stays", newScene(twoNodes(), "2-15").owner("2,4", fixed), nil},
		{"two that are in each other's way", newScene(twoNodes(), "0-7").owner("0,2").owner("1,3"), []string{
			"default/a/app 0,2 → 4-5", "default/b/app 1,3 → 0-1",
		}},
		{"devices draw to their node", newScene(twoNodes(), "2-15").owner("2-3", near("1")), []string{"default/a/app 2-3 → 8-9"}},
		{"unless they do not count", newScene(twoNodes(), "2-15").owner("2-3", near("1"), with(allocate.Options{TopologyPolicy: allocate.None})), nil},
		{"caches", newScene(caches(), "0-15").owner("2-5").owner("8-11"), []string{"default/a/app 2-5 → 0-3"}},
		{"one makes room for another", newScene(caches(), "0-9").owner("0-1,4-5").owner("2-3").owner("6-7", fixed), []string{
			"default/b/app 2-3 → 8-9 (makes room)", "default/a/app 0-1,4-5 → 0-3",
		}},
		{"spread over cores", newScene(caches(), "0-7").owner("0-1", with(allocate.Options{DistributeCPUsAcrossCores: true})),
			[]string{"default/a/app 0-1 → 0,2"}},
		{"alone in a core", newScene(twoNodes(), "0-7").owner("0,2", with(allocate.Options{OneOwnerPerCore: true})),
			[]string{"default/a/app 0,2 → 0-1"}},
		{"idle CPUs are not free", newScene(twoNodes(), "0-3").owner("0", with(allocate.Options{OneOwnerPerCore: true})).owner("2-3"), nil},
		{"isolated CPUs have become free", isolated(newScene(twoNodes(), "2-7")).owner("2-3", with(allocate.Options{Isolated: allocate.Prefer})),
			[]string{"default/a/app 2-3 → 6-7"}},
		{"and are left when the options avoid them", isolated(newScene(twoNodes(), "2-7")).owner("6-7", with(allocate.Options{Isolated: allocate.Avoid})),
			[]string{"default/a/app 6-7 → 2-3"}},
		{"uneven on two nodes", newScene(machine{2, 1, 1, 2, 1}, "0-3").owner("0-2", with(allocate.Options{DistributeCPUsAcrossNUMA: true})), nil},
		{"a unit", newScene(twoNodes(), "2-15").owner("2,4", func(o *pools.Owner) { o.Key, o.Pod = pools.Key{Container: "du.service"}, "" }),
			[]string{"du.service 2,4 → 2-3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := defrag.Analyse(c.scene.Input)
			checkReport(t, c.scene, r)
			var got []string
			for _, m := range r.Moves {
				line := fmt.Sprintf("%s %s → %s", m.Full(), m.From, m.To)
				if m.MakesRoom {
					line += " (makes room)"
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("moves (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReport(t *testing.T) {
	s := newScene(twoNodes(), "2-15").owner("6,8,10").owner("7").owner("2-3", fixed)
	got := defrag.Analyse(s.Input)
	want := defrag.Report{
		Owners: []defrag.Place{
			{
				Name: defrag.Name{PodUID: "uid-00", Pod: "default/a", Container: "app"}, CPUs: set("6,8,10"),
				Now:   defrag.Shape{SplitCores: 3, SharedCores: 1, L3Groups: 2, Nodes: 2, Packages: 2},
				After: defrag.Shape{SplitCores: 1, L3Groups: 1, Nodes: 1, Packages: 1},
				Least: defrag.Shape{SplitCores: 1, L3Groups: 1, Nodes: 1, Packages: 1},
			},
			{
				Name: defrag.Name{PodUID: "uid-01", Pod: "default/b", Container: "app"}, CPUs: set("7"),
				Now:   defrag.Shape{SplitCores: 1, SharedCores: 1, L3Groups: 1, Nodes: 1, Packages: 1},
				After: defrag.Shape{SplitCores: 1, L3Groups: 1, Nodes: 1, Packages: 1},
				Least: defrag.Shape{SplitCores: 1, L3Groups: 1, Nodes: 1, Packages: 1},
			},
			{
				Name: defrag.Name{PodUID: "uid-02", Pod: "default/c", Container: "app"}, CPUs: set("2-3"), Fixed: "has exited",
				Now:   defrag.Shape{L3Groups: 1, Nodes: 1, Packages: 1},
				After: defrag.Shape{L3Groups: 1, Nodes: 1, Packages: 1},
				Least: defrag.Shape{L3Groups: 1, Nodes: 1, Packages: 1},
			},
		},
		Room: defrag.Change[defrag.Room]{
			Now: defrag.Room{Free: 8, OnNode: 6, InL3: 6, InWholeCores: 4, Nodes: []defrag.NodeRoom{
				{Node: 0, Free: 2, InL3: 2, InWholeCores: 2}, {Node: 1, Free: 6, InL3: 6, InWholeCores: 4},
			}},
			After: defrag.Room{Free: 8, OnNode: 5, InL3: 5, InWholeCores: 4, Nodes: []defrag.NodeRoom{
				{Node: 0, Free: 3, InL3: 3, InWholeCores: 2}, {Node: 1, Free: 5, InL3: 5, InWholeCores: 4},
			}},
		},
		Excess: defrag.Change[defrag.Shape]{Now: defrag.Shape{SplitCores: 2, SharedCores: 2, L3Groups: 1, Nodes: 1, Packages: 1}},
		Moves: []defrag.Move{{
			Name: defrag.Name{PodUID: "uid-00", Pod: "default/a", Container: "app"}, From: set("6,8,10"), To: set("8-10"),
			Now:       defrag.Shape{SplitCores: 3, SharedCores: 1, L3Groups: 2, Nodes: 2, Packages: 2},
			Then:      defrag.Shape{SplitCores: 1, L3Groups: 1, Nodes: 1, Packages: 1},
			FromNodes: set("0-1"), ToNodes: set("1"),
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	slices.Reverse(s.Owners)
	if diff := cmp.Diff(want, defrag.Analyse(s.Input)); diff != "" {
		t.Errorf("report of owners in another order (-want +got):\n%s", diff)
	}
}

// TestLeast checks that the minimum of an owner does not depend on its place. Spread
// over cores it needs one package, and split cores do not put it above its minimum.
func TestLeast(t *testing.T) {
	for _, cpus := range []string{"0-3", "2,6-7,9", "1-2,6,9"} {
		s := newScene(machine{2, 1, 1, 3, 2}, "0-11").owner(cpus, fixed, with(allocate.Options{DistributeCPUsAcrossCores: true}))
		r := defrag.Analyse(s.Input)
		if want := (defrag.Shape{L3Groups: 1, Nodes: 1, Packages: 1}); r.Owners[0].Least != want || r.Excess.Now.SplitCores != 0 {
			t.Errorf("on %s: least %+v, excess %+v; want %+v and no split cores", cpus, r.Owners[0].Least, r.Excess.Now, want)
		}
	}
}

// TestLargestNode checks a machine with 2,048 CPUs and owners all over them: another
// pair of caches always remains to try. The search ends, reports that it was bounded,
// and has found moves that can be made.
func TestLargestNode(t *testing.T) {
	s := newScene(machine{8, 4, 8, 4, 2}, "4-2047")
	r := rand.New(rand.NewPCG(1, 2))
	ids := r.Perm(2044)
	for len(s.Owners) < 300 {
		var cpus []int
		for _, id := range ids[:6] {
			cpus = append(cpus, 4+id)
		}
		ids = ids[6:]
		s.owner(cpuset.Of(cpus...).String())
	}
	report := defrag.Analyse(s.Input)
	if now, after := report.Excess.Now, report.Excess.After; !report.Bounded || after.Nodes > now.Nodes*2/3 || after.SplitCores > now.SplitCores/2 {
		t.Errorf("bounded = %t, excess = %+v, after %d moves = %+v; want a bounded search with less excess", report.Bounded, now, len(report.Moves), after)
	}
	for _, m := range report.Moves {
		if err := defrag.Check(s.Input, m.Key(), m.From, m.To); err != nil {
			t.Fatalf("%s: %v", m.Full(), err)
		}
		s.Owners[s.index(m.Key())].CPUs = m.To
	}
}

func TestCheck(t *testing.T) {
	s := newScene(twoNodes(), "2-15").
		owner("2,4").
		owner("8-9", fixed).
		owner("3").
		owner("10", with(allocate.Options{OneOwnerPerCore: true})).
		owner("12-13", with(allocate.Options{FullPCPUsOnly: true})).
		owner("6", near("0"), with(allocate.Options{TopologyPolicy: allocate.SingleNUMANode}))
	for _, c := range []struct {
		owner    string
		from, to string
		want     string
	}{
		{"uid-00", "2,4", "4-5", ""},
		{"uid-00", "2,4", "7,14", ""}, // no better, and none of our business
		{"uid-99", "2,4", "4-5", "has no exclusive CPUs"},
		{"uid-00", "2,5", "4-5", "has CPUs 2,4 and not 2,5: something has changed; ask for a new report"},
		{"uid-00", "2,4", "2,4", "is on CPUs 2,4 already"},
		{"uid-00", "2,4", "4", "has 2 CPUs and cannot be moved to 1 (4)"},
		{"uid-00", "2,4", "1,4", "cannot have CPU 1: not in the guaranteed pool (2-15)"},
		{"uid-00", "2,4", "2-3", "cannot have CPU 3: not free"},
		{"uid-00", "2,4", "4,11", "cannot have CPU 11: not free"},
		{"uid-01", "8-9", "14-15", "must stay where it is: has exited"},
		{"uid-03", "10", "11", ""},
		{"uid-03", "10", "7", "cannot have CPUs 7: another owner or pool may use CPU 6 of the same cores (one-owner-per-core)"},
		{"uid-04", "12-13", "14-15", ""},
		{"uid-04", "12-13", "5,14", "cannot have CPUs 5,14: full-pcpus-only"},
		{"uid-05", "6", "7", ""},
		{"uid-05", "6", "14", "cannot have CPUs 14: "},
	} {
		err := defrag.Check(s.Input, pools.Key{PodUID: c.owner, Container: "app"}, set(c.from), set(c.to))
		got := fmt.Sprint(err)
		if c.want == "" && err != nil || c.want != "" && (err == nil || len(got) < len(c.want) || got[:len(c.want)] != c.want) {
			t.Errorf("Check(%s, %s, %s) = %v; want %q", c.owner, c.from, c.to, err, c.want)
		}
	}
}

// claimed makes an owner the part of a ResourceClaim.
func claimed(o *pools.Owner) {
	o.Key, o.Pod, o.Fixed = pools.Key{Claim: "uid-claim", Container: "cpus|numa0|share"}, "radio/one", "the CPUs of a ResourceClaim never move"
}

// TestClaims checks that a claim keeps its CPUs, which are not in the pool, and that an owner in one of
// its cores can move away.
func TestClaims(t *testing.T) {
	s := newScene(twoNodes(), "4-15").owner("2,4", claimed).owner("5")
	r := defrag.Analyse(s.Input)
	claim := r.Owners[len(r.Owners)-1]
	want := defrag.Name{ClaimUID: "uid-claim", Claim: "radio/one", Part: "cpus|numa0|share"}
	if claim.Name != want || claim.Full() != "claim radio/one (cpus of numa0)" || claim.Key() != s.Owners[0].Key {
		t.Errorf("name %+v is %q with key %+v; want claim radio/one", claim.Name, claim.Full(), claim.Key())
	}
	if claim.Least.SplitCores != claim.Now.SplitCores || claim.Fixed == "" {
		t.Errorf("claim %+v; want that its least is what it has", claim)
	}
	if len(r.Moves) != 0 && r.Moves[0].PodUID != "uid-01" {
		t.Errorf("moves %+v; want none of the claim", r.Moves)
	}
	if err := defrag.Check(s.Input, s.Owners[0].Key, set("2,4"), set("6-7")); err == nil || !strings.Contains(err.Error(), "never move") {
		t.Errorf("Check = %v; want a refusal", err)
	}
}
