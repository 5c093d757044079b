package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// explained returns the explanation of the only subject with a name.
func explained(t *testing.T, o *view.Answers, name string) *inspect.Subject {
	t.Helper()
	e, err := o.Explain(name)
	if err != nil || len(e.Subjects) != 1 {
		t.Fatalf("explain %s = %+v, %v; want one subject", name, e, err)
	}
	return &e.Subjects[0]
}

// deciding returns the rule that applied, which must be the last.
func deciding(t *testing.T, s *inspect.Subject) inspect.Rule {
	t.Helper()
	for i, r := range s.Rules {
		if r.Met != (i == len(s.Rules)-1) {
			t.Errorf("rules of %s = %+v; want the last one met, and no other", s.Container.Full(), s.Rules)
		}
	}
	if len(s.Rules) == 0 {
		t.Fatalf("%s: no rules", s.Container.Full())
	}
	return s.Rules[len(s.Rules)-1]
}

func TestExplain(t *testing.T) {
	n := newNode(t)
	r := n.start()
	o := newAnswers(r.loop.publisher, r.loop.Cgroups, n.options())
	burst := n.RunContainer(n.RunPod("burst", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	excl := n.RunContainer(n.RunPod("excl", "ran", "guaranteed", 2, nil), "du", nodefixture.WholeCPUs(2))
	large := n.RunContainer(n.RunPod("large", "ran", "guaranteed", 100, nil), "cu", nodefixture.WholeCPUs(100))
	asking := n.RunContainer(n.RunPod("asks", "default", "burstable", 0, nodefixture.Management(nil)), "app", cri.Resources{Shares: 512})
	n.AwaitCPUs(excl, "4-5")
	for _, id := range []string{burst, large, asking} {
		n.AwaitCPUs(id, "2-3")
	}
	r.quiet()

	du := explained(t, o, "ran/excl/du")
	if met := deciding(t, du); met.Name != "Exclusive" || !strings.Contains(met.Answer, "2 whole CPUs") || len(du.Rules) != 8 {
		t.Errorf("rules of the owner are %+v", du.Rules)
	}
	if k := du.Kernel; k == nil || k.Cgroup != n.Runtime.Cgroup(excl) || k.CPUs != "4-5" || k.Effective != "4-5" || k.Max == "" || k.Error != "" {
		t.Errorf("the kernel says %+v of the owner; want 4-5", k)
	}
	if w := du.Wanted; w == nil || w.CPUs.String() != "4-5" || !w.Unlimited {
		t.Errorf("wanted of the owner is %+v", w)
	}
	kinds := map[history.Kind]int{}
	for _, e := range du.Events {
		if kinds[e.Kind]++; e.PodUID != du.Container.PodUID {
			t.Errorf("%+v is no event of the owner's pod", e)
		}
	}
	if kinds[history.Placed] != 1 || kinds[history.Wrote] == 0 {
		t.Errorf("events of the owner = %+v; want its placement and its writes", du.Events)
	}

	// The guaranteed pool is NUMA node 1 alone, so it is the only candidate.
	if len(du.Candidates) != 1 || du.Candidates[0].Node != 1 || !du.Candidates[0].Has || du.Candidates[0].Would.Len() != 2 {
		t.Errorf("candidates of the owner are %+v", du.Candidates)
	}
	if len(du.Changes) != 1 || !strings.Contains(du.Changes[0].Then, "shared pool") {
		t.Errorf("changes for the owner are %+v", du.Changes)
	}

	app := explained(t, o, "burst")
	if met := deciding(t, app); met.Name != "QoS" || met.Answer != "Burstable pod" {
		t.Errorf("rules of a Burstable pod are %+v", app.Rules)
	}
	refused := explained(t, o, "large/cu")
	if met := deciding(t, refused); met.Name != "Exclusive" || !strings.Contains(met.Answer, "runs in the shared pool") || !refused.Container.Refused || len(refused.Problems) != 1 {
		t.Errorf("the refused container is explained as %+v", refused)
	}
	if len(refused.Candidates) != 1 || !strings.Contains(refused.Candidates[0].Why, "rejected: ") {
		t.Errorf("candidates of the refused container are %+v", refused.Candidates)
	}
	whats := ""
	for _, c := range app.Changes {
		whats += c.What + " -> " + c.Then + "\n"
	}
	for _, want := range []string{"1 whole CPU here -> guaranteed pool, exclusive CPUs, now 6", "annotation target.workload.openshift.io/management", "-> management pool, CPUs 0-1"} {
		if !strings.Contains(whats, want) {
			t.Errorf("changes for a Burstable pod are\n%swant %q", whats, want)
		}
	}
	asks := explained(t, o, "default/asks/app")
	if met := deciding(t, asks); met.Name != "QoS" || !strings.Contains(asks.Rules[2].Answer, "is not among the namespaces") {
		t.Errorf("a pod that may not have its workload type is explained as %+v", asks.Rules)
	}
	if pause := explained(t, o, "burst/POD"); deciding(t, pause).Name != "Pause" {
		t.Errorf("the pause container is explained as %+v", pause.Rules)
	}
	for s, want := range map[*inspect.Subject]string{
		du:      "container du of excl has exclusive CPUs of the guaranteed pool, because it requests 2 whole CPUs in a Guaranteed pod.",
		app:     "burst runs in the shared pool, because a container has no limit, or requests less CPU or memory than its limit, so the pod is Burstable.",
		refused: "container cu of large runs in the shared pool, because it requests 100 whole CPUs, but 2 of 4 CPUs of the guaranteed pool are free.",
		asks:    "asks runs in the shared pool, because namespace default does not allow workload type management.",
	} {
		if s.Sentence != want || (s.Fix == "") != s.Container.Exclusive {
			t.Errorf("%s: %s (%s)\nwant %s", s.Container.Full(), s.Sentence, s.Fix, want)
		}
	}
	var unknown *inspect.NameError
	if _, err := o.Explain("nobody"); !errors.As(err, &unknown) || !strings.Contains(err.Error(), "ran/excl") {
		t.Errorf("explain nobody: %v; want what there is", err)
	}
}
