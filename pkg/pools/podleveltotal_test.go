package pools_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// loseJournal replaces the assignments by the CPUs that recovery finds without a journal: the CPUs of
// live containers, and the records of exited ones, which can be outdated.
func (l *life) loseJournal(plan pools.Plan, records map[string]cpuset.Set) {
	l.in.Previous = nil
	found := make(map[string]bool)
	add := func(name string, cpus cpuset.Set) {
		if !found[name] && !cpus.IsEmpty() {
			l.in.Previous = append(l.in.Previous, pools.Assignment{Key: pools.Key{PodUID: "a", Container: name}, CPUs: cpus})
		}
	}
	for _, at := range plan.Pods[0].Containers {
		if at.State != pools.Exited {
			if at.Pool == pools.Guaranteed {
				add(at.Name, at.CPUs)
			}
			found[at.Name] = true
		}
	}
	for _, at := range plan.Pods[0].Containers {
		if at.State == pools.Exited {
			add(at.Name, records[at.Name])
			found[at.Name] = true
		}
	}
}

// pooled returns the exclusive CPUs of live containers, and which of them no other container
// shares.
func pooled(plan pools.Plan) (all, alone map[string]cpuset.Set) {
	all, alone = make(map[string]cpuset.Set), make(map[string]cpuset.Set)
	for _, at := range plan.Pods[0].Containers {
		if at.State == pools.Exited || at.Pool != pools.Guaranteed {
			continue
		}
		all[at.Name] = at.CPUs
		if at.Exclusive {
			alone[at.Name] = at.CPUs
		}
	}
	return all, alone
}

// TestPodLevelTotal checks that a pod with pod-level resources never has more exclusive CPUs than
// its total, in random lives. Containers are created, end and are removed. The journal is lost.
// Containers with whole CPUs below the total keep their CPUs while they run. The CPUs that the other
// containers share stay with the pod.
func TestPodLevelTotal(t *testing.T) {
	for _, mode := range []pools.PodLevel{pools.PodLevelPod, pools.PodLevelContainer} {
		for seed := range uint64(300) {
			liveWithTotal(t, mode, seed)
		}
	}
}

func liveWithTotal(t *testing.T, mode pools.PodLevel, seed uint64) {
	t.Helper()
	const total = 4
	requests := map[string]string{"A": "cpu=1", "B": "cpu=2", "C": "full", "D": "full"}
	names := []string{"A", "B", "C", "D"}
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // to be repeatable is the point
	l := newLife(t, row{total: fmt.Sprint("total cpu=", total)}, mode)
	var plan pools.Plan
	var steps []string
	live, records := make(map[string]bool), make(map[string]cpuset.Set)
	var had, alone map[string]cpuset.Set
	for range 12 {
		name := names[r.IntN(len(names))]
		step := "+ " + name + " " + requests[name]
		switch {
		case len(steps) > 0 && r.IntN(5) == 0:
			l.loseJournal(plan, records)
			steps = append(steps, "lose the journal")
			continue
		case live[name]:
			step = "- " + name
		case r.IntN(2) == 0: // the earlier instance is removed
			l.in.Pods[0].Containers = slices.DeleteFunc(slices.Clone(l.in.Pods[0].Containers), func(c pools.Container) bool { return c.Name == name })
		}
		live[name] = !live[name]
		steps = append(steps, step)
		plan = l.step(t, step)
		before := had
		had, alone = pooled(plan)
		var all cpuset.Set
		for _, cpus := range had {
			all = all.Union(cpus)
		}
		for _, at := range plan.Pods[0].Containers {
			if at.State != pools.Exited {
				records[at.Name] = at.CPUs.Intersection(l.in.Pools.Guaranteed)
			}
		}
		if all.Len() > total {
			t.Fatalf("%s, %q: the containers have the exclusive CPUs %s; want %d at most\n%s", mode, steps, all, total, format(plan))
		}
		for name, cpus := range before {
			switch {
			case !live[name]:
			case requests[name] != "full" && !cpus.Equal(alone[name]):
				t.Fatalf("%s, %q: %s has %s; want its CPUs %s\n%s", mode, steps, name, alone[name], cpus, format(plan))
			case requests[name] == "full" && mode == pools.PodLevelPod && !cpus.IsSubsetOf(held(plan)):
				t.Fatalf("%s, %q: %s was on %s; want that the pod keeps these\n%s", mode, steps, name, cpus, format(plan))
			}
		}
	}
}

// TestPodLevelOutdatedRecord checks that the CPUs of a running container precede the record of an
// exited one. The record is outdated, and the journal is lost.
func TestPodLevelOutdatedRecord(t *testing.T) {
	l := newLife(t, row{total: "total cpu=3"}, pools.PodLevelPod)
	l.step(t, "+ init cpu=2")
	l.step(t, "- init")
	l.step(t, "+ app cpu=1")
	l.in.Previous = must(parseAssignments("a/app 4\na/bare 5,7\na/init 5-6\n"))(t)
	plan := l.step(t, "+ bare full")
	for name, want := range map[string]cpuset.Set{"app": cpuset.Of(4), "bare": cpuset.Of(5, 7)} {
		for _, at := range plan.Pods[0].Containers {
			if at.Name == name && !at.CPUs.Equal(want) {
				t.Errorf("%s runs on %s; want its CPUs %s\n%s", name, at.CPUs, want, format(plan))
			}
		}
	}
}
