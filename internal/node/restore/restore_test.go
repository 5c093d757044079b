package restore_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// node is a fake node on which values are changed and restored.
type node struct{ *nodefixture.Node }

func newNode(t *testing.T, s nodefixture.Spec) node { return node{nodefixture.New(t, s)} }

func (n node) config() *config.Config {
	n.T.Helper()
	c, err := n.Config()
	if err != nil {
		n.T.Fatal(err)
	}
	return c
}

// enforce brings the node into the desired state as a daemon does, partitions excepted.
func (n node) enforce() {
	n.T.Helper()
	h := n.Host()
	for range 3 { // an update of CPUs over CRI makes the runtime write the weight again
		p, err := preview.OnHost(n.T.Context(), &h, n.config(), n.CPUs.Now(), false, n.Logger())
		if err != nil {
			n.T.Fatal(err)
		}
		if len(p.Writes) == 0 {
			return
		}
		n.Apply(p.Writes)
	}
	n.T.Fatal("the node does not reach the desired state")
}

// makePartition makes a container a root partition.
func (n node) makePartition(id string) {
	n.T.Helper()
	n.MakePartition(cgroup.DesiredPartition{Path: cgroup.Path(n.Runtime.Cgroup(id)), Container: id, Type: cgroup.RootPartition, CPUs: n.State(id).CPUs})
}

// restore restores the originals of a journal with the isolation of the configuration.
func (n node) restore(j undo.Document, dryRun bool) restore.Report {
	n.T.Helper()
	h := n.Host()
	r, err := restore.OnHost(n.T.Context(), &h, j, n.config().Isolation, dryRun)
	if err != nil {
		n.T.Fatal(err)
	}
	return r
}

// presumed returns the journal that replaces a lost one.
func (n node) presumed() undo.Document {
	n.T.Helper()
	h := n.Host()
	all, err := preview.Presume(n.T.Context(), &h, n.config(), n.CPUs.Now(), "", n.Logger())
	if err != nil {
		n.T.Fatal(err)
	}
	return undo.Document{Originals: all}
}

// checkMark checks whether a missing journal counts as lost.
func (n node) checkMark(want bool) {
	n.T.Helper()
	none := filepath.Join(n.T.TempDir(), "journal.json")
	if f, err := (undo.File{Name: none, RunDir: n.Host().RunDir}).Find(); err != nil || f.Lost != want {
		n.T.Errorf("a missing journal is lost: %v, %v; want %v", f.Lost, err, want)
	}
}

// harmful returns the differences that change something.
func harmful(r restore.Report) []undo.Difference {
	return slices.DeleteFunc(slices.Clone(r.Differs), func(d undo.Difference) bool { return d.Harmless })
}

// TestRestore checks that all values are as before, and that the journal is removed.
func TestRestore(t *testing.T) {
	n := newNode(t, nodefixture.Spec{})
	n.RunContainer(n.RunPod("m", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 102})
	n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	before := n.Dump()
	n.enforce()
	if n.Dump() == before {
		t.Fatal("no value has changed")
	}
	if bad := harmful(n.restore(n.Journal(), false)); len(bad) > 0 {
		t.Errorf("differs: %+v", bad)
	}
	// An empty cpuset and one of all CPUs are equal to the kernel.
	if after := strings.ReplaceAll(n.Dump(), `cpus="0-7"`, `cpus=""`); after != before {
		t.Errorf("cgroups (-before +after):\n%s", cmp.Diff(before, after))
	}
	if _, err := os.Stat(n.Host().JournalFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the journal still exists: %v", err)
	}
}

// TestDryRestore checks that DryRestore lists the changes of Restore and makes none, with
// the journal and with presumed originals.
func TestDryRestore(t *testing.T) {
	for name, c := range map[string]struct{ lost, partitions, crun bool }{
		"journal": {}, "journal, partitions": {partitions: true},
		"lost journal": {lost: true}, "lost journal, partitions": {lost: true, partitions: true},
		"journal, crun": {crun: true}, "lost journal, crun": {lost: true, crun: true},
	} {
		t.Run(name, func(t *testing.T) {
			spec := nodefixture.Spec{Kernel: nodefixture.KernelLike(6, 12)}
			if c.crun {
				spec.Runtime = testnode.RuntimeConfig{Flavor: testnode.CRIO, Crun: true}
			}
			n := newNode(t, spec)
			n.RunHostServices()
			n.YAML = nodefixture.PoolsYAML + "hostSlices: {enabled: true, weight: 200}\n"
			if c.partitions {
				n.YAML = nodefixture.WithPartitions(n.YAML)
			}
			owner := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
			n.RunContainer(n.RunPod("b", "default", "burstable", 0, nil), "web", cri.Resources{Shares: 512, Quota: 50_000, Period: 100_000})
			// The kubelet sets the quota of the slice of a Guaranteed pod.
			if err := n.Tree.Write("kubepods.slice/kubepods-poda.slice/"+cgroup.FileMax, "200000 100000"); err != nil {
				t.Fatal(err)
			}
			before := n.Settings()
			n.checkMark(false)
			n.enforce()
			if c.partitions {
				n.makePartition(owner)
			}
			n.checkMark(true)
			j := n.Journal()
			if c.lost {
				j = n.presumed()
			}
			changed := n.Settings()
			dry := n.restore(j, true)
			if len(dry.Changes) < 6 || len(dry.Restored) > 0 {
				t.Fatalf("dry run: %+v", dry)
			}
			if d := cmp.Diff(changed, n.Settings()); d != "" {
				t.Fatalf("a dry run has changed values (-before +after):\n%s", d)
			}
			for _, c := range dry.Changes {
				if is := changed[string(c.Path)+"/"+c.File]; c.Unit == "" && c.File != cgroup.FilePartition && is != c.From {
					t.Errorf("%+v: the file contains %q", c, is)
				}
			}
			done := n.restore(j, false)
			if bad := harmful(done); len(bad) > 0 {
				t.Fatalf("differs: %+v", bad)
			}
			if d := cmp.Diff(dry.Changes, done.Changes); d != "" {
				t.Errorf("changes (-dry run +restore):\n%s", d)
			}
			after := n.Settings()
			for key, was := range before {
				all := strings.HasSuffix(key, "/"+cgroup.FileCPUs) && was == "" && after[key] == "0-7" || strings.HasSuffix(key, "/"+cgroup.FileMems) && was == ""
				if was != after[key] && !all {
					t.Errorf("%s: %q; want %q", key, after[key], was)
				}
			}
			n.checkMark(false)
			if again := n.restore(j, true); len(again.Changes) > 0 {
				t.Errorf("changes after the restore: %+v", again.Changes)
			}
			if c.lost {
				if left := n.presumed(); len(left.Originals) > 0 {
					t.Errorf("presumed on a restored node: %+v", left.Originals)
				}
			}
		})
	}
}

// TestLimit checks that restore removes the quota of an annotation's limit, with the
// journal and with presumed originals.
func TestLimit(t *testing.T) {
	for _, lost := range []bool{false, true} {
		n := newNode(t, nodefixture.Spec{})
		id := n.RunContainer(n.RunPod("m", "kube-system", "burstable", 0, nodefixture.LimitedManagement("app", 409, 500)), "app", cri.Resources{Shares: 2})
		n.enforce()
		if got := n.State(id).Quota; got != 50_000 {
			t.Fatalf("quota %d; want 50000", got)
		}
		j := n.Journal()
		if lost {
			j = n.presumed()
		}
		n.restore(j, false)
		if got := n.State(id).Quota; got != -1 {
			t.Errorf("lost journal: %t, quota %d; want none", lost, got)
		}
	}
}

// TestLostPartitions checks that partitions which the journal does not contain are
// differences, except with isolation cpuset and for partitions that a container has made.
func TestLostPartitions(t *testing.T) {
	n := newNode(t, nodefixture.Spec{Kernel: nodefixture.KernelLike(7, 0)})
	isolated := nodefixture.WithPartitions(n.YAML)
	id := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.enforce()
	n.makePartition(id)
	scope := cgroup.Path(n.Runtime.Cgroup(id))
	nested := scope.Join("own")
	n.Tree.MkdirAll(string(nested))
	if err := n.Tree.Write(string(nested.Join(cgroup.FilePartition)), "root"); err != nil {
		t.Fatal(err)
	}
	j := n.Journal()
	n.YAML = nodefixture.WithIsolation(nodefixture.PoolsYAML, "cpuset")
	if r := n.restore(undo.Document{}, false); len(r.Differs) > 0 {
		t.Errorf("with isolation cpuset: %+v; want no differences", r.Differs)
	}
	n.YAML = isolated
	if r := n.restore(undo.Document{}, false); len(r.Differs) != 1 || r.Differs[0].Path != scope || r.Differs[0].Now != "root" {
		t.Errorf("without a journal: %+v; want the container's partition", r.Differs)
	}
	if r := n.restore(j, false); len(n.ExclusiveLists()) > 0 {
		t.Errorf("with the journal: %+v; lists %v", r, n.ExclusiveLists())
	}
	n.CheckKernel()
}

// TestStuckPartition checks that a partition that the kernel does not end is a difference
// and stays in the journal, for the next restore.
func TestStuckPartition(t *testing.T) {
	for name, kernel := range map[string]testnode.CgroupConfig{"6.12": nodefixture.KernelLike(6, 12), "7.0": nodefixture.KernelLike(7, 0)} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, nodefixture.Spec{Kernel: kernel})
			n.YAML = nodefixture.WithPartitions(n.YAML)
			id := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
			n.enforce()
			n.makePartition(id)
			scope := cgroup.Path(n.Runtime.Cgroup(id))
			end := n.RefuseWrites(scope, cgroup.FilePartition)
			r := n.restore(n.Journal(), false)
			if !slices.ContainsFunc(r.Differs, func(d undo.Difference) bool {
				return d.Path == scope && d.File == cgroup.FilePartition && strings.Contains(d.Reason, "busy")
			}) {
				t.Errorf("differs: %+v; want the partition", r.Differs)
			}
			end()
			if r := n.restore(n.Journal(), false); len(harmful(r)) > 0 || len(n.ExclusiveLists()) > 0 || !n.RootCPUs().Equal(cpuset.Range(0, 7)) {
				t.Errorf("second restore: %+v; lists %v, root %s", r, n.ExclusiveLists(), n.RootCPUs())
			}
			n.CheckKernel()
		})
	}
}

// TestParking checks that restore ends parking and removes its cgroup, also without a
// journal.
func TestParking(t *testing.T) {
	n := newNode(t, nodefixture.Spec{Kernel: nodefixture.KernelLike(7, 0)})
	if err := n.Host().Cgroups.MakeParking(); err != nil {
		t.Fatal(err)
	}
	n.MakePartition(cgroup.DesiredPartition{Path: cgroup.Parking, Type: cgroup.IsolatedPartition, CPUs: cpuset.Range(4, 7)})
	n.restore(undo.Document{}, false)
	n.AwaitNoParking(false)
	if !n.RootCPUs().Equal(cpuset.Range(0, 7)) {
		t.Errorf("the root has CPUs %s; want 0-7", n.RootCPUs())
	}
	n.CheckKernel()
}

// TestUnits checks that properties of units are reset, and that the original of a missing
// unit stays in the journal until the unit exists again.
func TestUnits(t *testing.T) {
	n := newNode(t, nodefixture.Spec{})
	n.YAML = nodefixture.PoolsYAML + nodefixture.UnitsYAML
	n.Units.Install("telegraf.service", cpuset.Set{})
	n.enforce()
	if got := n.UnitProperty("telegraf.service"); got != "0-1" {
		t.Fatalf("AllowedCPUs = %q; want 0-1", got)
	}
	j := n.Journal()
	j.Originals = append(j.Originals, undo.Original{Path: "system.slice/du.service", File: cgroup.FileCPUs, Unit: "du.service"})
	if r := n.restore(j, false); len(r.Differs) > 0 || r.Gone != 1 {
		t.Fatalf("restore: %+v; want one missing unit", r)
	}
	if got := n.UnitProperty("telegraf.service"); got != "" {
		t.Errorf("AllowedCPUs of telegraf.service = %q; want none", got)
	}
	n.Units.Install("du.service", cpuset.Of(4))
	if r := n.restore(n.Journal(), false); len(r.Restored)+len(r.Differs) != 1 {
		t.Fatalf("restore of the unit that was missing: %+v", r)
	}
	if got := n.UnitProperty("du.service"); got != "" {
		t.Errorf("AllowedCPUs of du.service = %q; want none", got)
	}
}

// TestStaticKubelet checks that management containers get the kubelet's present default
// set, and that a restore without the kubelet's state file reports the remedy.
func TestStaticKubelet(t *testing.T) {
	n := newNode(t, nodefixture.Spec{Runtime: testnode.RuntimeConfig{NRI: true}})
	k := nodefixture.NewStaticKubelet(n.Node)
	id := k.Run("m", "kube-system", "app", nodefixture.Management(map[string]int{"app": 409}))
	_, owner := k.Give("o", cpuset.Of(2, 3))
	n.enforce()
	k.Check(map[string]string{id: "0-1"})
	n.restore(n.Journal(), false)
	k.Check(nil)
	if on := n.State(owner).Effective; on.String() != "2-3" {
		t.Errorf("the kubelet's owner runs on %s; want 2-3", on)
	}

	k.Change(func() { k.Err = fs.ErrNotExist })
	j := undo.Document{Originals: []undo.Original{{Path: "gone.scope", File: cgroup.FileCPUs, Container: "gone", Value: "2-7"}}}
	h := n.Host()
	if _, err := restore.OnHost(t.Context(), &h, j, config.IsolationCPUSet, false); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "restart the kubelet") {
		t.Errorf("restore without the kubelet's file: %v; want the remedy", err)
	}
}
