package daemon

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

const kubeletYAML = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0-1
  namespaces: [kube-system]
guaranteed:
  exclusive: kubelet
resyncPeriod: 10m
weightFormula: quadratic
`

// staticKubelet manages the CPUs of a fake node as a kubelet whose policy is static
// (strict-cpu-reservation): it gives each container its set when it creates it, and all
// of the default set another one when that changes.
type staticKubelet struct {
	n      *node
	shared map[string]bool       // containers of the default set, by id; managed ones are among them
	owners map[string]cpuset.Set // containers with CPUs of their own, by id

	mu     sync.Mutex // guards what follows, which the daemon reads
	policy string
	rest   cpuset.Set // the default set
	held   map[pools.Key]cpuset.Set
	err    error
}

func newStaticNode(t testing.TB) *node {
	n := newNRINode(t)
	n.yaml = kubeletYAML
	n.manager = &staticKubelet{n: n, policy: "static", rest: cpuset.Range(2, 7),
		shared: make(map[string]bool), owners: make(map[string]cpuset.Set), held: make(map[pools.Key]cpuset.Set)}
	return n
}

func (k *staticKubelet) State(context.Context) (podresources.CPUState, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return podresources.CPUState{}, k.err
	}
	s := podresources.CPUState{Policy: k.policy, Default: k.rest}
	for _, key := range slices.SortedFunc(maps.Keys(k.held), inventory.CompareKeys) {
		s.Holdings = append(s.Holdings, podresources.Holding{PodUID: key.PodUID, Container: key.Container, CPUs: k.held[key]})
	}
	return s, nil
}

func (k *staticKubelet) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

// give makes a container with CPUs of its own, for which all others make room.
func (k *staticKubelet) give(uid string, cpus cpuset.Set) (pod, id string) {
	k.n.t.Helper()
	pod = k.n.pod(uid, "default", "guaranteed", cpus.Len(), nil)
	k.set(func() {
		k.held[pools.Key{PodUID: uid, Container: "app"}] = cpus
		k.rest = k.rest.Difference(cpus)
	})
	k.reconcile()
	res := whole(cpus.Len())
	res.CPUs = cpus.String()
	id = k.n.container(pod, "app", res)
	k.owners[id] = cpus
	return pod, id
}

// end removes a pod of give, and gives its CPUs back to all others.
func (k *staticKubelet) end(uid, pod, id string) {
	k.n.t.Helper()
	if err := errors.Join(k.n.runtime.StopPod(pod), k.n.runtime.RemovePod(pod)); err != nil {
		k.n.t.Fatal(err)
	}
	k.set(func() {
		key := pools.Key{PodUID: uid, Container: "app"}
		k.rest = k.rest.Union(k.held[key]).Difference(cpuset.Range(0, 1))
		delete(k.held, key)
	})
	delete(k.owners, id)
	k.reconcile()
}

// run makes a container of the default set.
func (k *staticKubelet) run(uid, namespace, name string, annotations map[string]string) string {
	k.n.t.Helper()
	pod := k.n.pod(uid, namespace, "burstable", 0, annotations)
	id := k.n.container(pod, name, cri.Resources{Shares: 512, CPUs: k.rest.String()})
	k.shared[id] = true
	return id
}

// reconcile writes the default set to all that have it, as the kubelet has it in mind.
func (k *staticKubelet) reconcile() {
	k.n.t.Helper()
	for _, id := range slices.Sorted(maps.Keys(k.shared)) {
		if err := k.n.client.UpdateCPUs(k.n.t.Context(), id, k.rest); err != nil {
			k.n.t.Fatal(err)
		}
	}
}

// restart writes everything, also what has not changed.
func (k *staticKubelet) restart() {
	k.n.t.Helper()
	for id, cpus := range k.owners {
		if err := k.n.client.UpdateCPUs(k.n.t.Context(), id, cpus); err != nil {
			k.n.t.Fatal(err)
		}
	}
	k.reconcile()
}

// check holds the kernel's word against the kubelet's, with management pods on their
// own, at this moment: what the daemon repairs later would be found.
func (k *staticKubelet) check(managed map[string]string) {
	k.n.t.Helper()
	var claims []cpuset.Claim
	for id := range k.shared {
		want := k.rest.String()
		if m := managed[id]; m != "" {
			want = m
		}
		got := k.n.state(id).Effective
		if got.String() != want {
			k.n.t.Fatalf("container %s is on %s; want %s\n%s", id, got, want, k.n.dump())
		}
		claims = append(claims, cpuset.Claim{Name: id, CPUs: got})
	}
	for id, cpus := range k.owners {
		got := k.n.state(id).Effective
		if !got.Equal(cpus) {
			k.n.t.Fatalf("owner %s is on %s; want %s\n%s", id, got, cpus, k.n.dump())
		}
		claims = append(claims, cpuset.Claim{Name: id, CPUs: got, Exclusive: true})
	}
	for _, err := range cpuset.CheckClaims(claims) {
		k.n.t.Error(err)
	}
}

// foreignWrites records the daemon's writes to cgroups of others than the managed.
func (k *staticKubelet) foreignWrites(managed map[string]string) *[]string {
	ours := make(map[string]bool)
	for id := range managed {
		ours[filepath.Dir(k.n.runtime.Cgroup(id))] = true // its pod's slice
	}
	wrote := new([]string)
	k.n.tree.Intercept(func(x testnode.CgroupWrite) error {
		if !ours[filepath.Dir(filepath.Dir(x.Name))] && !ours[filepath.Dir(x.Name)] {
			*wrote = append(*wrote, x.Name+"="+x.Value)
		}
		return nil
	})
	return wrote
}

// TestStaticKubelet: a kubelet gives CPUs away and takes them back, is restarted, and so
// is the daemon. Management pods keep their CPUs at every moment, because NRI asks
// before the kubelet's writes are made; of all others every set is what the kubelet says.
func TestStaticKubelet(t *testing.T) {
	n := newStaticNode(t)
	k := n.manager
	r := n.start()
	r.connected()
	managed := make(map[string]string)
	for _, uid := range []string{"m", "n"} {
		id := k.run(uid, "kube-system", "app", management(map[string]int{"app": 409}))
		managed[id] = "0-1"
		if on := n.runtime.BeganOn(id); on.String() != "0-1" {
			t.Errorf("a management container began on %s; want 0-1", on)
		}
	}
	k.run("s", "default", "app", nil)
	forged := k.run("f", "default", "app", management(nil)) // its namespace is not listed
	r.quiet()
	k.check(managed)
	wrote := k.foreignWrites(managed)

	random := rand.New(rand.NewPCG(7, 1))
	type owner struct{ uid, pod, id string }
	var owners []owner
	for step := range 60 {
		switch free := k.rest.Len(); {
		case step%15 == 14:
			k.restart()
		case step%20 == 10:
			r.stop()
			k.restart() // nobody keeps the management pods now
			r = n.start()
			r.connected()
			for id, cpus := range managed {
				n.runsOn(id, cpus)
			}
			r.quiet()
		case free > 1 && (len(owners) == 0 || random.IntN(2) == 0):
			take := k.rest.Take(1 + random.IntN(free-1))
			uid := "o" + string(rune('a'+step%26)) + string(rune('a'+step/26))
			pod, id := k.give(uid, take)
			owners = append(owners, owner{uid, pod, id})
		default:
			i := random.IntN(len(owners))
			k.end(owners[i].uid, owners[i].pod, owners[i].id)
			owners = slices.Delete(owners, i, i+1)
		}
		k.check(managed)
		if t.Failed() {
			t.Fatalf("step %d", step)
		}
	}
	r.quiet()
	k.check(managed)
	if len(*wrote) > 0 {
		t.Errorf("the daemon has written to the kubelet's containers: %s", strings.Join(*wrote, ", "))
	}
	r.view("what the kubelet holds, as the guaranteed pool", func(v *telemetry.View) bool {
		return slices.ContainsFunc(v.Pools, func(p telemetry.Pool) bool {
			return p.Pool == string(pools.Guaranteed) && p.CPUs.Equal(cpuset.Range(2, 7).Difference(k.rest))
		}) && v.Problems[string(pools.CodeNamespaceNotListed)] == 1
	})
	if on := n.state(forged).Effective; !on.Equal(k.rest) {
		t.Errorf("a pod whose namespace is not listed runs on %s; want %s", on, k.rest)
	}
	if p := n.preview(); len(p.Writes) > 0 || len(p.Unread) > 0 || !p.Plan.Shared.Equal(k.rest) {
		t.Errorf("plan would write %v, could not read %v, and has the shared pool %s; want nothing, and %s", p.Writes, p.Unread, p.Plan.Shared, k.rest)
	}
	if got := n.journal().Assignments; len(got) > 0 {
		t.Errorf("the journal has assignments, %v; the kubelet's are its own", got)
	}
}

// TestKubeletTakesManagementCPU: what the kubelet gives to one container alone management
// pods leave, as long as they have others, and come back to when it is over.
func TestKubeletTakesManagementCPU(t *testing.T) {
	n := newStaticNode(t)
	k := n.manager
	r := n.start()
	r.connected()
	id := k.run("m", "kube-system", "app", management(map[string]int{"app": 409}))
	pod, owner := k.give("o", cpuset.Of(1, 2)) // reservedSystemCPUs has been made less
	n.runsOn(id, "0")
	r.view("problem", func(v *telemetry.View) bool { return v.Problems[string(pools.CodeKubeletTook)] == 1 })
	k.check(map[string]string{id: "0"})
	pod2, owner2 := k.give("p", cpuset.Of(0)) // and there is no other left
	r.view("problems", func(v *telemetry.View) bool { return v.Problems[string(pools.CodeKubeletTook)] == 2 })
	n.runsOn(id, "0-1") // a set is never empty
	k.end("p", pod2, owner2)
	k.end("o", pod, owner)
	n.runsOn(id, "0-1")
	r.view("no problem", func(v *telemetry.View) bool { return v.Problems[string(pools.CodeKubeletTook)] == 0 })
}

// TestKubeletState: whatever becomes of the kubelet's file, management pods are where
// they belong, and what is not known is said.
func TestKubeletState(t *testing.T) {
	n := newStaticNode(t)
	n.kubelet = newKubelet()
	k := n.manager
	k.err = fs.ErrNotExist // the kubelet has never run
	r := n.start()
	r.connected()
	problem := func(code pools.Code, n int) {
		t.Helper()
		r.view(string(code), func(v *telemetry.View) bool { return v.Problems[string(code)] == n })
	}
	id := k.run("m", "kube-system", "app", management(nil))
	problem(desired.CodeKubeletUnread, 1)
	if p := n.preview(); len(p.Unread) != 1 || !strings.Contains(p.Unread[0], fs.ErrNotExist.Error()) {
		t.Errorf("plan could not read %v; want the kubelet's file", p.Unread)
	}
	k.set(func() { k.err = nil })
	k.give("o", cpuset.Of(2))
	problem(desired.CodeKubeletUnread, 0)
	k.set(func() { k.err = errors.New("unexpected end of JSON input") }) // torn
	k.reconcile()
	problem(desired.CodeKubeletUnread, 1)
	k.check(map[string]string{id: "0-1"})
	k.set(func() { k.err, k.policy, k.held = nil, "none", nil }) // policy migration
	k.reconcile()
	problem(desired.CodeKubeletUnread, 0)
	problem(desired.CodeKubeletNotStatic, 1)
	k.set(func() { k.policy = "static" })
	k.reconcile()
	problem(desired.CodeKubeletNotStatic, 0)
	problem(desired.CodeKubeletUnheard, 0)
	n.runtime.NRIDown()
	problem(desired.CodeKubeletUnheard, 1)
	if err := n.runtime.NRIUp(); err != nil {
		t.Fatal(err)
	}
	problem(desired.CodeKubeletUnheard, 0)
}

// TestKubeletListed: where the file cannot be understood PodResources tells who has CPUs
// alone.
func TestKubeletListed(t *testing.T) {
	k := desired.StaticKubelet{Shared: cpuset.Range(2, 7), Policy: "static"}
	uidOf := func(namespace, name string) string {
		if namespace == "default" && name == "p" {
			return "uid"
		}
		return ""
	}
	k.Take(desired.KubeletStatus{Err: errors.New("torn"), Listed: []podresources.Container{
		{Namespace: "default", Pod: "p", Name: "app", CPUs: cpuset.Of(3)},
		{Namespace: "default", Pod: "p", Name: "side"},
		{Namespace: "default", Pod: "unknown", Name: "app", CPUs: cpuset.Of(4)},
	}}, uidOf)
	want := pools.Assignment{Key: pools.Key{PodUID: "uid", Container: "app"}, CPUs: cpuset.Of(3)}
	if len(k.Held) != 1 || k.Held[0].Key != want.Key || !k.Held[0].CPUs.Equal(want.CPUs) || !k.Shared.Equal(cpuset.Of(2, 5, 6, 7)) || k.Err == nil {
		t.Errorf("known are %v, shared %s, error %v", k.Held, k.Shared, k.Err)
	}
	k.Take(desired.KubeletStatus{Err: errors.New("torn"), ListErr: hostenv.ErrNoKubelet}, uidOf)
	if len(k.Held) != 1 {
		t.Errorf("nobody tells anything, and %v are known; want what was", k.Held)
	}
	k.Take(desired.KubeletStatus{Err: errors.New("torn")}, uidOf)
	if len(k.Held) != 0 || !k.Shared.Equal(cpuset.Of(2, 3, 5, 6, 7)) {
		t.Errorf("all have ended, and %v are known, shared %s; want what was given back in it", k.Held, k.Shared)
	}
}

// TestRestoreBesideKubelet: management containers get back what the kubelet has for them
// now. What it asked for when it made them is partly somebody's own.
func TestRestoreBesideKubelet(t *testing.T) {
	n := newStaticNode(t)
	k := n.manager
	r := n.start()
	r.connected()
	id := k.run("m", "kube-system", "app", management(map[string]int{"app": 409}))
	_, owner := k.give("o", cpuset.Of(2, 3))
	r.quiet()
	k.check(map[string]string{id: "0-1"})
	r.stop()
	h := n.host()
	if report, err := restore.HostRestore(&h, t.Context(), n.journal()); err != nil {
		t.Errorf("restore: %+v, %v", report, err)
	}
	k.check(nil)
	if on := n.state(owner).Effective; on.String() != "2-3" {
		t.Errorf("the kubelet's owner runs on %s; want 2-3", on)
	}

	k.set(func() { k.err = fs.ErrNotExist })
	lost := undo.Document{Originals: []undo.Original{{Path: "gone.scope", File: cgroup.FileCPUs, Container: "gone", Value: "2-7"}}}
	if _, err := restore.HostRestore(&h, t.Context(), lost); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "restart the kubelet") {
		t.Errorf("restore without the kubelet's file: %v; want that it is said", err)
	}
}

// TestOthersBesideKubelet: containers that came with CPUs while cpupoold gave them away
// had them from the kubelet, if that gives them away now.
func TestOthersBesideKubelet(t *testing.T) {
	n := newStaticNode(t)
	k := n.manager
	id := k.run("m", "kube-system", "app", management(map[string]int{"app": 409}))
	boot, err := undo.ReadBootID()
	if err == nil {
		err = undo.Save(n.host().Journal, undo.Document{BootID: boot, Others: []undo.Left{{PodUID: "m", Container: "app"}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	r := n.start()
	n.runsOn(id, "0-1")
	r.quiet()
}

// TestKubeletResizes: a resize of the kubelet's own containers is let be, and one of a
// management pod leaves its CPUs and its annotated shares.
func TestKubeletResizes(t *testing.T) {
	n := newStaticNode(t)
	k := n.manager
	r := n.start()
	r.connected()
	id := k.run("m", "kube-system", "app", management(map[string]int{"app": 409}))
	other := k.run("s", "default", "app", nil)
	for _, c := range []string{id, other} {
		if err := n.runtime.Resize(c, cri.Resources{Shares: 1024}); err != nil {
			t.Fatal(err)
		}
	}
	k.check(map[string]string{id: "0-1"})
	r.quiet()
	if of, than := n.state(other).Weight, n.state(k.run("t", "default", "app", nil)).Weight; of <= than {
		t.Errorf("the kubelet's own container has weight %d after its resize; want more than before, %d", of, than)
	}
	k.check(map[string]string{id: "0-1"})
}

// TestKubeletRefusesToBeTraded: who gives CPUs away is read at the start only.
func TestKubeletRefusesToBeTraded(t *testing.T) {
	n := newStaticNode(t)
	var s desired.Settings
	for _, yaml := range []string{kubeletYAML, poolsYAML} {
		n.yaml = yaml
		c, err := n.config()
		if err != nil {
			t.Fatal(err)
		}
		var want error
		if yaml == poolsYAML {
			want = desired.ErrOtherOwner
		}
		if err := s.Change(c, n.top, nil); !errors.Is(err, want) {
			t.Errorf("change = %v; want %v", err, want)
		}
	}
	changed := *s.Config
	changed.KubeletStateDir = "/elsewhere"
	if keys := desired.Fixed(s.Config, &changed); len(keys) != 1 || keys[0] != "kubeletStateDir" {
		t.Errorf("keys that need a restart: %v; want kubeletStateDir", keys)
	}
}

// TestKeepBesideKubelet: what the kubelet writes to a management container is made the
// pool's even while nobody knows what is on record.
func TestKeepBesideKubelet(t *testing.T) {
	n := newStaticNode(t)
	l := &Loop{Host: hostenv.Host{Manager: n.manager}, cache: kernelstate.New(nil)}
	managed := pools.Placement{Pool: pools.Management, CPUs: cpuset.Range(0, 1)}
	if keep := l.keep(&inventory.Container{Path: "m.scope"}, &managed, cri.Resources{CPUs: "2-7"}); keep.CPUs != "0-1" {
		t.Errorf("a management container keeps %q; want 0-1", keep.CPUs)
	}
	kubelets := pools.Placement{Pool: pools.Other, CPUs: cpuset.Range(2, 3)}
	if keep := l.keep(&inventory.Container{Path: "s.scope"}, &kubelets, cri.Resources{CPUs: "2-7"}); keep != (cri.Resources{}) {
		t.Errorf("one of the kubelet's keeps %v; want nothing", keep)
	}
}
