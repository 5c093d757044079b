package preview_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// show returns the preview of a node.
func show(n *nodefixture.Node) preview.Preview {
	n.T.Helper()
	c, err := n.Config()
	if err != nil {
		n.T.Fatal(err)
	}
	h := n.Host()
	p, err := preview.OnHost(n.T.Context(), &h, c, n.CPUs.Now(), false, n.Logger())
	if err != nil {
		n.T.Fatal(err)
	}
	return p
}

// TestWritesComplete checks that the writes of a preview bring the node into the desired
// state: the next preview has no writes, and containers run in their pools.
func TestWritesComplete(t *testing.T) {
	n := nodefixture.New(t, nodefixture.Spec{})
	n.RunHostServices()
	n.YAML = nodefixture.PoolsYAML + nodefixture.HostSlicesYAML
	want := map[string]string{
		n.RunContainer(n.RunPod("m", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 102}): "0-1",
		n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512}):                                                    "2-3",
		n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2)):                                                     "4-5",
	}
	n.Apply(show(n).Writes)
	if p := show(n); len(p.Writes) > 0 || len(p.Deferred) > 0 || len(p.Unread) > 0 {
		t.Errorf("after its writes a preview has writes %v, deferred %v, unread %v", p.Writes, p.Deferred, p.Unread)
	}
	for id, cpus := range want {
		if got := n.State(id).Effective.String(); got != cpus {
			t.Errorf("container on CPUs %s; want %s", got, cpus)
		}
	}
	if got := n.CPUsOf("init.scope"); got != "0-1" {
		t.Errorf("init.scope on CPUs %s; want 0-1", got)
	}
}

// TestChanges checks that changed CPUs of running containers are listed by change, in a bounded
// number of lines, and not after the writes.
func TestChanges(t *testing.T) {
	n := nodefixture.New(t, nodefixture.Spec{})
	shared := cri.Resources{Shares: 102}
	for i := range 7 {
		n.RunContainer(n.RunPod(fmt.Sprint("s", i), "apps", "burstable", 0, nil), "app", shared)
	}
	n.RunContainer(n.RunPod("db", "apps", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.WriteFile(n.RunContainer(n.RunPod("there", "apps", "burstable", 0, nil), "app", shared), cgroup.FileCPUs, "2-3")
	p := show(n)
	want := []string{
		"CPUs 0-7 become 2-3 for 7 containers: apps/s0/app, apps/s1/app, apps/s2/app, apps/s3/app, apps/s4/app and 2 more",
		"CPUs 0-7 become 4-5 for 1 container: apps/db/app",
	}
	if d := cmp.Diff(want, p.Changes); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	n.Apply(p.Writes)
	if p := show(n); len(p.Changes) > 0 {
		t.Errorf("after the writes: %q", p.Changes)
	}
	n.YAML = strings.Replace(n.YAML, "cpus: 2-3", "cpus: 2", 1)
	for cpu := range 8 {
		for j := range 2 {
			id := n.RunContainer(n.RunPod(fmt.Sprintf("c%d-%d", cpu, j), "apps", "burstable", 0, nil), "app", shared)
			n.WriteFile(id, cgroup.FileCPUs, fmt.Sprintf("%d,%d", cpu, (cpu+1+j)%8))
		}
	}
	changes := show(n).Changes
	if len(changes) != 9 || !strings.HasPrefix(changes[8], "other CPUs change for ") {
		t.Errorf("%d lines: %q; want eight, and one for the other containers", len(changes), changes)
	}
}

// TestHostSlices checks the writes for host services, and the verdicts about their units.
func TestHostSlices(t *testing.T) {
	n := nodefixture.New(t, nodefixture.Spec{})
	n.RunHostServices()
	n.YAML = nodefixture.PoolsYAML + "hostSlices: {enabled: true, units: [backup.service]}\n"
	n.Units.DropIn("user.slice", "/etc/systemd/system/user.slice.d/cpus.conf", cpuset.Range(0, 3))
	n.Units.Reload()
	p := show(n)
	var writes []string
	for _, w := range p.Writes {
		writes = append(writes, w.String())
	}
	const reason = " # host services"
	want := []string{
		"file cpuset.cpus=0-1 init.scope" + reason, "file cpuset.cpus=0-1 system.slice" + reason,
		"dbus AllowedCPUs=0-1 init.scope" + reason, "dbus AllowedCPUs=0-1 machine.slice" + reason, "dbus AllowedCPUs=0-1 system.slice" + reason,
	}
	if d := cmp.Diff(want, writes); d != "" {
		t.Errorf("writes (-want +got):\n%s", d)
	}
	states := make(map[string]hostslices.State)
	for _, v := range p.Host {
		states[v.Name] = v.State
	}
	wantStates := map[string]hostslices.State{"backup.service": hostslices.Absent, "init.scope": hostslices.Confined, "machine.slice": hostslices.Confined,
		"system.slice": hostslices.Confined, "user.slice": hostslices.Foreign}
	if d := cmp.Diff(wantStates, states); d != "" {
		t.Errorf("verdicts (-want +got):\n%s", d)
	}
}

// modes returns the modes in force and wanted, by name of the owner.
func modes(p preview.Preview) map[string][2]noise.Mode {
	all := make(map[string][2]noise.Mode)
	for _, o := range p.Owners {
		all[o.Name] = [2]noise.Mode{o.Mode, o.Wanted}
	}
	return all
}

// countedUnits counts the questions for the records of cgroups.
type countedUnits struct {
	hostenv.Units
	questions *atomic.Int32
}

func (c countedUnits) Properties(ctx context.Context, unit string) (cgroup.UnitState, error) {
	c.questions.Add(1)
	return c.Units.Properties(ctx, unit)
}

// TestExclusive checks that Exclusive returns the owners of the preview, without questions
// that only writes need: the records of systemd and the version of the OCI runtime.
func TestExclusive(t *testing.T) {
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	script := "#!/bin/sh\n: >" + ran + "\necho runc version 1.3.2\n"
	if err := os.WriteFile(filepath.Join(dir, "runc"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	n := nodefixture.New(t, nodefixture.Spec{})
	id := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.WriteFile(id, cgroup.FileWeight, "3") // fits no formula
	c, err := n.Config()
	if err != nil {
		t.Fatal(err)
	}
	c.WeightFormula = config.WeightAuto
	h, questions := n.Host(), new(atomic.Int32)
	h.Units = countedUnits{h.Units, questions}
	input, unread, err := preview.Exclusive(t.Context(), &h, c, n.CPUs.Now(), n.Logger())
	if err != nil || len(unread) > 0 {
		t.Fatal(err, unread)
	}
	if _, err := os.Stat(ran); questions.Load() != 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%d questions to systemd, and a run of runc (%v); want none", questions.Load(), err)
	}
	p, err := preview.OnHost(t.Context(), &h, c, n.CPUs.Now(), false, n.Logger())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(ran); questions.Load() != 3 || err != nil {
		t.Errorf("for a preview %d questions to systemd, run of runc: %v; want 3 and a run", questions.Load(), err)
	}
	if len(p.Owners) != 1 || len(input.Owners) != 1 || input.Owners[0].Key.Container != p.Owners[0].Name || !input.Owners[0].CPUs.Equal(p.Owners[0].CPUs) {
		t.Errorf("owners %+v; want those of the preview, %+v", input.Owners, p.Owners)
	}
}

// TestOwners checks the modes of owners before they are partitions, as partitions, and when
// partitions are switched off.
func TestOwners(t *testing.T) {
	n := nodefixture.New(t, nodefixture.Spec{Kernel: nodefixture.KernelLike(6, 12)})
	n.YAML = nodefixture.WithPartitions(n.YAML)
	n.Boot = noise.BootFacts{Boot: noise.Boot{ManagedIRQ: cpuset.Range(4, 7)}}
	app := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	du := n.RunContainer(n.RunPod("b", "default", "guaranteed", 1, map[string]string{"cpu-load-balancing.workload.openshift.io/du": "disable"}), "du", nodefixture.WholeCPUs(1))
	n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "shared", cri.Resources{Shares: 512})

	p := show(n)
	want := map[string][2]noise.Mode{"app": {noise.CPUSet, noise.Root}, "du": {noise.CPUSet, noise.Isolated}}
	if d := cmp.Diff(want, modes(p)); d != "" {
		t.Errorf("before (-want +got):\n%s", d)
	}
	if want := []string{"nohz_full=4-7", "rcu_nocbs=4-7"}; !slices.Equal(p.BootArguments, want) {
		t.Errorf("kernel arguments %v, want %v", p.BootArguments, want)
	}

	n.Apply(p.Writes)
	for id, typ := range map[string]cgroup.PartitionType{app: cgroup.RootPartition, du: cgroup.IsolatedPartition} {
		n.MakePartition(cgroup.DesiredPartition{Path: cgroup.Path(n.Runtime.Cgroup(id)), Container: id, Type: typ, CPUs: n.State(id).CPUs})
	}
	want = map[string][2]noise.Mode{"app": {noise.Root, noise.Root}, "du": {noise.Isolated, noise.Isolated}}
	if p := show(n); !cmp.Equal(want, modes(p)) || len(p.Ends) > 0 {
		t.Errorf("with partitions: %v, to end: %v", modes(p), p.Ends)
	}
	n.YAML = nodefixture.PoolsYAML
	want = map[string][2]noise.Mode{"app": {noise.Root, noise.CPUSet}, "du": {noise.Isolated, noise.CPUSet}}
	if p := show(n); !cmp.Equal(want, modes(p)) || len(p.Ends) != 2 {
		t.Errorf("without partitions: %v, to end: %v", modes(p), p.Ends)
	}
}

// TestRefusedPartition checks that an owner has the reason for which the kernel refuses its
// partition: the cpuset of a sibling overlaps its CPUs.
func TestRefusedPartition(t *testing.T) {
	n := nodefixture.New(t, nodefixture.Spec{Kernel: nodefixture.KernelLike(6, 12)})
	id := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.Apply(show(n).Writes)
	sibling := cgroup.Path(n.Runtime.Cgroup(id)).Parent().Join("other")
	n.Tree.MkdirAll(string(sibling))
	if err := n.Tree.Write(string(sibling.Join(cgroup.FileCPUs)), "0-7"); err != nil {
		t.Fatal(err)
	}
	n.YAML = nodefixture.WithPartitions(n.YAML)
	p := show(n)
	if len(p.Owners) != 1 || p.Owners[0].Mode != noise.CPUSet || p.Owners[0].Wanted != noise.Root || p.Owners[0].Why == "" {
		t.Errorf("owners %+v", p.Owners)
	}
}

// TestParking checks that parked CPUs do not prevent the partition of an owner, and that
// parking ends when it is switched off.
func TestParking(t *testing.T) {
	for yaml, ends := range map[string][]cgroup.Path{nodefixture.PoolsYAML: {cgroup.Parking}, nodefixture.WithParking(nodefixture.PoolsYAML, "partition"): nil} {
		n := nodefixture.New(t, nodefixture.Spec{Kernel: nodefixture.KernelLike(6, 12)})
		n.YAML = yaml
		if err := n.Host().Cgroups.MakeParking(); err != nil {
			t.Fatal(err)
		}
		n.MakePartition(cgroup.DesiredPartition{Path: cgroup.Parking, Type: cgroup.IsolatedPartition, CPUs: cpuset.Range(4, 7)})
		id := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
		n.WriteFile(id, cgroup.FileCPUs, "4-5")
		p := show(n)
		if !slices.Equal(p.Ends, ends) || len(p.Owners) != 1 || p.Owners[0].Why != "" {
			t.Errorf("%s\nends %v, owners %+v", yaml, p.Ends, p.Owners)
		}
	}
}

// TestWithheldCPUs checks the preview on a machine that is a container with CPUs 0-5: no container
// gets others, and a problem names them.
func TestWithheldCPUs(t *testing.T) {
	n := nodefixture.New(t, nodefixture.Spec{})
	n.RunContainer(n.RunPod("first", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.RunContainer(n.RunPod("second", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.Tree.SetLimit(cpuset.Range(0, 5))
	p := show(n)
	codes := make(map[string]int)
	for _, problem := range p.Plan.Problems {
		codes[string(problem.Code)]++
	}
	if len(p.Plan.Assignments) != 1 || !p.Plan.Assignments[0].CPUs.Equal(cpuset.Range(4, 5)) || codes["CPUsWithheld"] != 1 || codes["Refused"] != 1 {
		t.Errorf("assignments %v, problems %v; want one owner of CPUs 4-5, one refusal, one problem of CPUs", p.Plan.Assignments, codes)
	}
	n.Apply(p.Writes)
	if p := show(n); len(p.Writes) > 0 {
		t.Errorf("after its writes a preview has writes %v", p.Writes)
	}
}

// TestPreviewOfClaims checks that a preview plans with the claims of the journal and their CPUs, also after
// a reboot. A container of the claim gets the claim's CPUs, and no other container does.
func TestPreviewOfClaims(t *testing.T) {
	boot, err := kernelfs.BootID()
	if err != nil {
		t.Fatal(err)
	}
	for name, bootID := range map[string]string{"this boot": boot, "an earlier boot": "earlier"} {
		t.Run(name, func(t *testing.T) {
			n := nodefixture.New(t, nodefixture.Spec{})
			n.YAML = nodefixture.ClaimsYAML
			err := undo.File{Name: n.Host().JournalFile}.Save(undo.Document{BootID: bootID,
				Claims: []pools.Claim{{UID: "u", Namespace: "ran", Name: "du", PodUID: "du", Containers: []string{"app"},
					Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa1", CPUs: 2}}}},
				Assignments: []pools.Assignment{{Key: pools.Key{Container: "cpus|numa1|", Claim: "u"}, CPUs: cpuset.Of(5, 7)}}}) // a new claim would get 5-6
			if err != nil {
				t.Fatal(err)
			}
			pod := n.RunPod("du", "ran", "guaranteed", 2, nil)
			app := n.RunContainer(pod, "app", nodefixture.WholeCPUs(1))
			side := n.RunContainer(pod, "side", nodefixture.WholeCPUs(1))
			p := show(n)
			if len(p.Plan.Claims) != 1 || p.Plan.Claims[0].CPUs.String() != "5,7" || len(p.Plan.Claims[0].Containers) != 1 {
				t.Errorf("claims = %+v; want one with CPUs 5,7 and one container", p.Plan.Claims)
			}
			n.Apply(p.Writes)
			if a, s := n.State(app).Effective.String(), n.State(side).Effective.String(); a != "5,7" || s != "3" {
				t.Errorf("the container of the claim has CPUs %s, the other one %s; want 5,7 and 3", a, s)
			}
			if p := show(n); len(p.Writes) > 0 || len(p.Unread) > 0 {
				t.Errorf("after its writes a preview has writes %v, unread %v", p.Writes, p.Unread)
			}
		})
	}
}
