package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/claims"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// claimYAML gives CPUs 6-7, one core of NUMA node 1, to claims.
var claimYAML = strings.Replace(nodefixture.PoolsYAML, "cpus: 4-7", "cpus: 4-5\n  claims:\n    cpus: 6-7\n    idle: shared", 1)

// prepare prepares a claim with a number of CPUs, and returns the CPUs.
func (r *running) prepare(uid string, cpus int) (string, error) {
	got, err := r.claimFuncs().Prepare(r.T.Context(), pools.Claim{UID: uid, Namespace: "ran", Name: uid, PodUID: "pod", Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa1", CPUs: cpus}}})
	if err != nil {
		return "", err
	}
	var all cpuset.Set
	for _, c := range got {
		all = all.Union(c.CPUs)
	}
	return all.String(), nil
}

func (r *running) end(uid string) error { return r.claimFuncs().End(r.T.Context(), uid, "") }

func (r *running) claimFuncs() control.ClaimFuncs {
	return claims.Request(func(c *claims.Change) { r.loop.box.Post(claimChange{c}) })
}

// TestClaimsKeepCPUs checks that a claim gets the same CPUs for the same request, over restarts of the daemon.
func TestClaimsKeepCPUs(t *testing.T) {
	n := newNRINode(t)
	n.YAML = claimYAML
	r := n.start()
	r.connected()
	shared := n.RunContainer(n.RunPod("web", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.Eventually("shared container on lent CPUs", func() bool { return n.State(shared).Effective.String() == "2-3,6-7" })
	first, err := r.prepare("one", 1)
	if err != nil || first != "6" {
		t.Fatalf("first claim = %s, %v; want CPU 6", first, err)
	}
	n.Eventually("shared container without the claim's CPU", func() bool { return n.State(shared).Effective.String() == "2-3,7" })
	if again, err := r.prepare("one", 1); err != nil || again != first {
		t.Errorf("the same claim = %s, %v; want %s", again, err, first)
	}
	for uid, cpus := range map[string]int{"one": 2, "two": 2} {
		_, err := r.prepare(uid, cpus)
		if _, conflicts := errors.AsType[control.Conflict](err); !conflicts {
			t.Errorf("claim %s with %d CPUs: %v; want a conflict", uid, cpus, err)
		}
	}
	r.stop()
	r = n.start()
	r.connected()
	n.Eventually("restarted", func() bool { second, err := r.prepare("two", 1); return err == nil && second == "7" })
	if again, err := r.prepare("one", 1); err != nil || again != first {
		t.Errorf("after a restart the claim = %s, %v; want %s", again, err, first)
	}
	if _, conflicts := errors.AsType[control.Conflict](r.claimFuncs().End(t.Context(), "one", "earlier pod")); !conflicts {
		t.Error("the end of a claim for another pod is no conflict")
	}
	if again, err := r.prepare("one", 1); err != nil || again != first {
		t.Errorf("after the end for another pod the claim = %s, %v; want %s", again, err, first)
	}
	for uid, podUID := range map[string]string{"one": "pod", "two": "", "unknown": "pod"} {
		if err := r.claimFuncs().End(t.Context(), uid, podUID); err != nil {
			t.Errorf("end of claim %s: %v", uid, err)
		}
	}
	n.Eventually("shared container on all lent CPUs", func() bool { return n.State(shared).Effective.String() == "2-3,6-7" })
}

// TestClaimsBeforeOnePass checks requests between two passes. Of two claims for the same CPUs one is prepared,
// whatever their UIDs are. A claim that ends and is prepared again gets the new number of CPUs.
func TestClaimsBeforeOnePass(t *testing.T) {
	n := newNRINode(t)
	n.YAML = claimYAML
	r := n.start()
	r.connected()
	r.quiet()
	change := func(uid string, cpus int) *claims.Change {
		c := &claims.Change{UID: uid, Question: waits.Ask[[]inspect.ClaimPart](nil)}
		if cpus > 0 {
			c.Claim = &pools.Claim{UID: uid, Namespace: "ran", Name: uid, PodUID: "pod", Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa1", CPUs: cpus}}}
		}
		return c
	}
	ask := func(changes ...*claims.Change) (answers []string) {
		r.inspect(func(l *Loop) {
			for _, c := range changes {
				claimChange{c}.apply(l)
			}
			l.schedule.full = true
		})
		for _, c := range changes {
			answer := <-c.Reply()
			text := map[bool]string{true: "error"}[answer.Err != nil]
			for _, part := range answer.Value {
				text = part.CPUs.String()
			}
			answers = append(answers, text)
		}
		return answers
	}
	for _, s := range []struct {
		changes []*claims.Change
		want    string
	}{
		{[]*claims.Change{change("b", 2), change("a", 1)}, "6-7 error"},
		{[]*claims.Change{change("b", 0), change("a", 1)}, " 6"},
		{[]*claims.Change{change("a", 2)}, "error"},
	} {
		if got := strings.Join(ask(s.changes...), " "); got != s.want {
			t.Errorf("answers = %q; want %q", got, s.want)
		}
	}
	r.inspect(func(l *Loop) {
		claimChange{change("a", 0)}.apply(l)
		claimChange{change("a", 2)}.apply(l)
		l.schedule.full = true
	})
	if again, err := r.prepare("a", 2); err != nil || again != "6-7" {
		t.Errorf("claim with another number of CPUs = %s, %v; want 6-7", again, err)
	}
}

// TestClaimsOutliveTheBoot checks that a claim has its CPUs again after a reboot, when the kubelet prepares it
// again, and that other claims and containers do not get them before.
func TestClaimsOutliveTheBoot(t *testing.T) {
	n := newNRINode(t)
	n.YAML = claimYAML
	r := n.start()
	r.connected()
	r.quiet()
	for _, uid := range []string{"first", "kept"} { // kept has CPU 7, which a new claim would not get first
		if _, err := r.prepare(uid, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.end("first"); err != nil {
		t.Fatal(err)
	}
	r.stop()
	n.rewriteJournal(3, func(data map[string]any) { data["bootID"] = "earlier" })

	shared := n.RunContainer(n.RunPod("web", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	r = n.start()
	r.connected()
	n.Eventually("shared container without the claim's CPU", func() bool { return n.State(shared).Effective.String() == "2-3,6" })
	if other, err := r.prepare("other", 1); err != nil || other != "6" {
		t.Errorf("another claim = %s, %v; want CPU 6", other, err)
	}
	if kept, err := r.prepare("kept", 1); err != nil || kept != "7" {
		t.Errorf("the claim after the reboot = %s, %v; want CPU 7", kept, err)
	}
	for _, uid := range []string{"other", "kept"} {
		if err := r.end(uid); err != nil {
			t.Errorf("end of claim %s: %v", uid, err)
		}
	}
	r.stop()
	if b, err := os.ReadFile(n.Host().JournalFile); err != nil || !strings.HasPrefix(string(b), `{"version":2,`) {
		t.Errorf("journal after the end of all claims: %.20s, %v; want version 2, which older daemons read", b, err)
	}
}

// TestClaimsWhenObserving checks that a daemon that changes nothing prepares no claim.
func TestClaimsWhenObserving(t *testing.T) {
	n := newNRINode(t)
	n.YAML = claimYAML
	h := n.Host()
	r := n.startOn(h.Observing())
	r.quiet()
	if _, err := r.prepare("one", 1); !errors.Is(err, (&hostenv.Host{Observes: true}).Writable()) {
		t.Errorf("claim of an observing daemon: %v; want %v", err, (&hostenv.Host{Observes: true}).Writable())
	}
}

// TestClaimIsOnDisk checks that a claim is answered only when the journal is on disk.
func TestClaimIsOnDisk(t *testing.T) {
	n := newNRINode(t)
	n.YAML = claimYAML
	h := n.Host()
	state := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(state, nil, 0o600); err != nil { // a file instead of the directory: no save succeeds
		t.Fatal(err)
	}
	h.JournalFile = filepath.Join(state, "journal.json")
	r := n.startOn(h)
	r.view("ready", func(v *telemetry.View) bool { return v.Ready })
	r.connected()
	answered := make(chan error, 1)
	go func() {
		_, err := r.prepare("one", 1)
		answered <- err
	}()
	n.Eventually("late journal", func() (late bool) {
		r.inspect(func(l *Loop) {
			_, decided := l.planner.Claims.Of("one")
			late = decided && l.journal.Late() != nil
		})
		return late
	})
	select {
	case err := <-answered:
		t.Fatalf("answer without a journal on disk: %v; want none", err)
	default:
	}
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	r.within(time.Minute, "answer", func() bool {
		select {
		case err := <-answered:
			if err != nil {
				t.Errorf("answer: %v; want CPUs", err)
			}
			return true
		default:
			return false
		}
	})
}
