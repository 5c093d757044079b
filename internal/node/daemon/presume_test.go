package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// lose is what restore takes for a journal where there is none.
func (n *node) lose(h hostenv.Host) undo.Document {
	n.T.Helper()
	o := n.options()
	all, err := preview.Presume(n.T.Context(), &h, o.Config, o.Topology, "", o.Log)
	if err != nil {
		n.T.Fatal(err)
	}
	return undo.Document{Originals: all}
}

// marks checks whether a missing journal would count as lost.
func (n *node) marks(want bool) {
	n.T.Helper()
	boot, err := undo.ReadBootID()
	if err != nil {
		n.T.Fatal(err)
	}
	if got, err := undo.JournalMark(n.Host().RunDir, boot).There(); err != nil || got != want {
		n.T.Errorf("there has been a journal: %v, %v; want %v", got, err, want)
	}
}

// TestDryRestore: what is said before is what is done then, and saying it changes nothing.
// Without a journal the defaults stand in for what was there, and are the same here.
func TestDryRestore(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for name, major := range map[string]int{"cpusets": 0, "partitions": 7} {
			t.Run(name, func(t *testing.T) {
				n := newPartitionNode(t, 6, 12, testnode.RuntimeConfig{})
				n.RunHostServices()
				n.YAML = nodefixture.PoolsYAML + "hostSlices: {enabled: true, weight: 200}\n"
				if major == 7 {
					n.YAML = nodefixture.WithPartitions(n.YAML)
				}
				ids := []string{
					n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2)),
					n.RunContainer(n.RunPod("b", "default", "burstable", 0, nil), "web", cri.Resources{Shares: 512, Quota: 50_000, Period: 100_000}),
				}
				// As the kubelet makes the slice of a Guaranteed pod.
				if err := n.Tree.Write(string(cgroup.Path("kubepods.slice/kubepods-poda.slice").Join(cgroup.FileMax)), "200000 100000"); err != nil {
					t.Fatal(err)
				}
				before := n.Settings()
				n.marks(false)
				r := n.start()
				n.AwaitCPUs(ids[0], "4-5")
				n.AwaitCPUs(ids[1], "2-3")
				n.AwaitCPUsOf("init.scope", "0-1")
				r.quiet()
				r.stop()
				n.marks(true)
				h := n.Host()
				j := n.Journal()
				if lost {
					j = n.lose(h)
				}
				changed := n.Settings()
				dry, err := restore.OnHost(t.Context(), &h, j, n.options().Config.Isolation, true)
				if err != nil || len(dry.Changes) < 6 || len(dry.Restored) > 0 {
					t.Fatalf("dry run: %+v, %v", dry, err)
				}
				if d := cmp.Diff(changed, n.Settings()); d != "" {
					t.Fatalf("a dry run has changed values (-before +after):\n%s", d)
				}
				for _, c := range dry.Changes {
					if is := changed[string(c.Path)+"/"+c.File]; c.Unit == "" && c.File != cgroup.FilePartition && is != c.From {
						t.Errorf("%+v: the file has %q", c, is)
					}
				}
				done, err := restore.OnHost(t.Context(), &h, j, n.options().Config.Isolation, false)
				if err != nil || slices.ContainsFunc(done.Differs, func(d undo.Difference) bool { return !d.Harmless }) {
					t.Fatalf("restore: %+v, %v", done, err)
				}
				if d := cmp.Diff(dry.Changes, done.Changes); d != "" {
					t.Errorf("changes (-said +made):\n%s", d)
				}
				after := n.Settings()
				for key, was := range before {
					all := strings.HasSuffix(key, "/"+cgroup.FileCPUs) && was == "" && after[key] == "0-7" || strings.HasSuffix(key, "/"+cgroup.FileMems) && was == ""
					if was != after[key] && !all {
						t.Errorf("%s: %q; want %q", key, after[key], was)
					}
				}
				n.marks(false)
				again, err := restore.OnHost(t.Context(), &h, j, n.options().Config.Isolation, true)
				if err != nil || len(again.Changes) > 0 {
					t.Errorf("once more there would be %+v, %v", again.Changes, err)
				}
				if lost {
					if left := n.lose(h); len(left.Originals) > 0 {
						t.Errorf("taken for the daemon's on a node as it was: %+v", left.Originals)
					}
				}
			})
		}
	}
}

// TestJudgeJournal: what has become of a journal is told apart.
func TestJudgeJournal(t *testing.T) {
	n := newNode(t)
	n.start().stop()
	name := filepath.Join(t.TempDir(), "journal.json")
	boot, err := undo.ReadBootID()
	if err != nil {
		t.Fatal(err)
	}
	write := func(text []byte) {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, want undo.JournalState) {
		t.Helper()
		if _, got, err := undo.JudgeJournal(name); got != want || (err != nil) != (want == undo.JournalDamaged || want == undo.JournalUnread) {
			t.Errorf("%s: state %d, %v; want %d", what, got, err, want)
		}
	}
	check("none", undo.JournalMissing)
	if err := undo.Save(name, undo.Document{BootID: boot}); err != nil {
		t.Fatal(err)
	}
	check("this boot's", undo.JournalKnown)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	write(text[:len(text)/2])
	check("half", undo.JournalDamaged)
	if err := undo.Save(name, undo.Document{BootID: "earlier"}); err != nil {
		t.Fatal(err)
	}
	check("an earlier boot's", undo.JournalOfEarlierBoot)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	check("a directory", undo.JournalUnread)
}
