package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
)

func TestOtherMachineAfterAReboot(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.quiet()
	r.stop()
	n.ReplaceMachine(6) // without CPUs 6 and 7 of the guaranteed pool
	if _, err := n.Config(); err == nil {
		t.Fatal("the configuration fits the other machine: the test shows nothing")
	}
	c, err := n.LenientConfig()
	if err != nil {
		t.Fatal(err)
	}
	start := func() *Loop {
		t.Helper()
		o := Options{Start: hostenv.Start{Config: c, Topology: n.Topology, Reload: n.LenientConfig, Log: n.Logger()}}
		l, err := newLoop(n.Host(), o)
		if err != nil {
			t.Fatalf("the daemon does not start: %v", err)
		}
		return l
	}
	for range 2 { // also the second time
		l := start()
		if got := l.settings.Pools.Guaranteed.String(); got != "4-5" || len(l.settings.Adapted) == 0 {
			t.Errorf("guaranteed pool = %s, adaptions %q; want 4-5 and why", got, l.settings.Adapted)
		}
		r := n.serve(l)
		id := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
		n.AwaitCPUs(id, "4-5")
		n.Eventually("shown", func() bool { v := l.publisher.Metrics(); return v != nil && len(v.Adapted) > 0 })
		// Another configuration must fit the machine.
		n.YAML = strings.Replace(nodefixture.PoolsYAML, "cpus: 2-3", "cpus: 2-9", 1)
		l.watchers.reload()
		n.Eventually("refused", func() bool { return l.publisher.Metrics().ConfigStale })
		n.YAML = nodefixture.PoolsYAML
		l.watchers.reload()
		n.Eventually("adapted again", func() bool { return !l.publisher.Metrics().ConfigStale })
		r.stop()
		if err := n.Runtime.StopPod(n.PodOf(id)); err != nil {
			t.Fatal(err)
		}
	}
	if len(n.Logged("configuration adapted to this machine")) == 0 {
		t.Error("nothing in the log")
	}
}

// TestUnfitAtTheStart checks that the daemon starts with a configuration that does not fit,
// logs the adaptation, and does not accept it. Plan refuses the configuration, and a reload
// refuses every other one that does not fit.
func TestUnfitAtTheStart(t *testing.T) {
	n := newNode(t)
	unfit := strings.Replace(nodefixture.PoolsYAML, "cpus: 4-7", "cpus: 4-9", 1)
	n.YAML = unfit
	for name, prepare := range map[string]func() error{
		"no journal":      func() error { return nil },
		"damaged journal": func() error { return os.WriteFile(filepath.Join(n.Dir, "journal.json"), []byte("{"), 0o600) },
	} {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		c, err := n.LenientConfig()
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Start: hostenv.Start{Config: c, Topology: n.Topology, Reload: n.LenientConfig, Log: n.Logger()}}
		l, err := newLoop(n.Host(), o)
		if err != nil {
			t.Fatalf("%s: the daemon does not start: %v", name, err)
		}
		if got := l.settings.Pools.Guaranteed.String(); got != "4-7" || len(l.settings.Adapted) == 0 {
			t.Errorf("%s: guaranteed pool = %s, adaptions %q; want 4-7 and why", name, got, l.settings.Adapted)
		}
		r := n.serve(l)
		excl := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
		n.AwaitCPUs(excl, "4-5")
		n.YAML = strings.Replace(unfit, "cpus: 2-3", "cpus: 2-9", 1)
		l.watchers.reload()
		n.Eventually("refused", func() bool { return l.publisher.Metrics().ConfigStale })
		n.YAML = unfit
		l.watchers.reload()
		n.Eventually("adapted again", func() bool { v := l.publisher.Metrics(); return !v.ConfigStale && len(v.Adapted) > 0 })
		r.stop()
		if a := n.Journal().Accepted; a != nil {
			t.Errorf("%s: the journal takes it for accepted: %+v", name, a)
		}
		var s desired.Settings
		if err := s.Change(c, n.Topology, n.Journal().Accepted); err == nil || !strings.Contains(err.Error(), "guaranteed.cpus") {
			t.Errorf("%s: plan's error = %v; want one about guaranteed.cpus", name, err)
		}
		if err := n.Runtime.StopPod(n.PodOf(excl)); err != nil {
			t.Fatal(err)
		}
	}
	const loud = "configuration does not fit this machine, and is not known to have fitted another; the parts that fit are in force"
	if got := len(n.Logged(loud)); got != 2 {
		t.Errorf("%d errors in the log; want 2", got)
	}
}

// TestQuotaComesBack checks that a container that stops being exclusive has its quota again.
func TestQuotaComesBack(t *testing.T) {
	n := newNode(t)
	r := n.start()
	id := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(id, "4-5")
	n.Eventually("no quota", func() bool { return n.State(id).Quota == -1 })
	r.quiet()
	n.YAML = strings.Replace(nodefixture.PoolsYAML, "  cpus: 4-7", "  cpus: none", 1)
	r.loop.watchers.reload()
	n.AwaitCPUs(id, "2-3")
	n.Eventually("quota again", func() bool { st := n.State(id); return st.Quota > 0 && st.Quota/st.Period == 2 })
	r.quiet()
}

// TestMemoryIsBound checks that memory is bound to the nodes of exclusive CPUs if the
// configuration requests it, and that restore ends the binding.
func TestMemoryIsBound(t *testing.T) {
	n := newNode(t)
	r := n.start()
	id := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(id, "4-5")
	r.quiet()
	if got := n.State(id).Mems; !got.IsEmpty() {
		t.Errorf("memory is bound to nodes %s without being asked for", got)
	}
	n.YAML = strings.Replace(nodefixture.PoolsYAML, "  cpus: 4-7", "  cpus: 4-7\n  memory: bind", 1)
	r.loop.watchers.reload()
	n.Eventually("memory bound", func() bool { return n.State(id).Mems.String() == "1" })
	r.quiet()
	r.stop()
	before := len(n.Tree.Writes())
	r = n.start()
	r.quiet()
	r.stop()
	if writes := n.Tree.Writes()[before:]; len(writes) != 0 {
		t.Errorf("a restart wrote %v; want none", writes)
	}
	h := n.Host()
	if _, err := n.restore(); err != nil {
		t.Fatal(err)
	}
	if got := n.State(id).Mems; !got.IsEmpty() && !got.Equal(h.Nodes) {
		t.Errorf("memory is bound to nodes %s after restore", got)
	}
}
