package daemon

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// newStaticNode returns a node whose kubelet allocates exclusive CPUs.
func newStaticNode(t testing.TB) *node {
	n := newNRINode(t)
	nodefixture.NewStaticKubelet(n.Node)
	return n
}

// TestStaticKubelet checks management pods while a static kubelet allocates and frees CPUs, and
// while kubelet and daemon restart. They keep their CPUs at every moment, because NRI asks
// before the kubelet's writes are made. All other sets are the kubelet's.
func TestStaticKubelet(t *testing.T) {
	n := newStaticNode(t)
	k := n.Static
	r := n.start()
	r.connected()
	managed := make(map[string]string)
	for _, uid := range []string{"m", "n"} {
		id := k.Run(uid, "kube-system", "app", nodefixture.Management(map[string]int{"app": 409}))
		managed[id] = "0-1"
		if on := n.Runtime.BeganOn(id); on.String() != "0-1" {
			t.Errorf("a management container began on %s; want 0-1", on)
		}
	}
	k.Run("s", "default", "app", nil)
	forged := k.Run("f", "default", "app", nodefixture.Management(nil)) // its namespace is not listed
	r.quiet()
	k.Check(managed)
	wrote := k.ForeignWrites(managed)

	random := rand.New(rand.NewPCG(7, 1))
	type owner struct{ uid, pod, id string }
	var owners []owner
	for step := range 60 {
		switch free := k.Default.Len(); {
		case step%15 == 14:
			k.Restart()
		case step%20 == 10:
			r.stop()
			k.Restart() // no daemon keeps the management pods now
			r = n.start()
			r.connected()
			for id, cpus := range managed {
				n.AwaitCPUs(id, cpus)
			}
			r.quiet()
		case free > 1 && (len(owners) == 0 || random.IntN(2) == 0):
			take := k.Default.Take(1 + random.IntN(free-1))
			uid := "o" + string(rune('a'+step%26)) + string(rune('a'+step/26))
			pod, id := k.Give(uid, take)
			owners = append(owners, owner{uid, pod, id})
		default:
			i := random.IntN(len(owners))
			k.End(owners[i].uid, owners[i].pod, owners[i].id)
			owners = slices.Delete(owners, i, i+1)
		}
		k.Check(managed)
		if t.Failed() {
			t.Fatalf("step %d", step)
		}
	}
	r.quiet()
	k.Check(managed)
	if len(*wrote) > 0 {
		t.Errorf("the daemon has written to the kubelet's containers: %s", strings.Join(*wrote, ", "))
	}
	r.view("what the kubelet holds, as the guaranteed pool", func(v *telemetry.View) bool {
		return slices.ContainsFunc(v.Pools, func(p telemetry.Pool) bool {
			return p.Pool == string(pools.Guaranteed) && p.CPUs.Equal(cpuset.Range(2, 7).Difference(k.Default))
		}) && v.Problems[string(pools.CodeNamespaceNotListed)] == 1
	})
	if on := n.State(forged).Effective; !on.Equal(k.Default) {
		t.Errorf("a pod whose namespace is not listed runs on %s; want %s", on, k.Default)
	}
	if p := n.preview(); len(p.Writes) > 0 || len(p.Unread) > 0 || !p.Plan.Shared.Equal(k.Default) {
		t.Errorf("plan would write %v, could not read %v, and has the shared pool %s; want nothing, and %s", p.Writes, p.Unread, p.Plan.Shared, k.Default)
	}
	if got := n.Journal().Assignments; len(got) > 0 {
		t.Errorf("the journal has assignments, %v; the kubelet's are its own", got)
	}
}

// TestKubeletTakesManagementCPU checks that management pods leave CPUs that the kubelet has
// allocated, as long as they have others, and return when the CPUs are free.
func TestKubeletTakesManagementCPU(t *testing.T) {
	n := newStaticNode(t)
	k := n.Static
	r := n.start()
	r.connected()
	id := k.Run("m", "kube-system", "app", nodefixture.Management(map[string]int{"app": 409}))
	pod, owner := k.Give("o", cpuset.Of(1, 2)) // as after a change of reservedSystemCPUs
	n.AwaitCPUs(id, "0")
	r.view("problem", func(v *telemetry.View) bool { return v.Problems[string(pools.CodeKubeletTook)] == 1 })
	k.Check(map[string]string{id: "0"})
	pod2, owner2 := k.Give("p", cpuset.Of(0)) // no other CPU is left
	r.view("problems", func(v *telemetry.View) bool { return v.Problems[string(pools.CodeKubeletTook)] == 2 })
	n.AwaitCPUs(id, "0-1") // a cpuset is never empty
	k.End("p", pod2, owner2)
	k.End("o", pod, owner)
	n.AwaitCPUs(id, "0-1")
	r.view("no problem", func(v *telemetry.View) bool { return v.Problems[string(pools.CodeKubeletTook)] == 0 })
}

// TestKubeletState checks that management pods stay in their pool whatever happens to the
// kubelet's state file, and that problems report it.
func TestKubeletState(t *testing.T) {
	n := newStaticNode(t)
	n.Kubelet = nodefixture.NewKubelet()
	k := n.Static
	k.Err = fs.ErrNotExist // the kubelet has never run
	r := n.start()
	r.connected()
	problem := func(code pools.Code, n int) {
		t.Helper()
		r.view(string(code), func(v *telemetry.View) bool { return v.Problems[string(code)] == n })
	}
	id := k.Run("m", "kube-system", "app", nodefixture.Management(nil))
	problem("KubeletUnread", 1)
	if p := n.preview(); len(p.Unread) != 1 || !strings.Contains(p.Unread[0], fs.ErrNotExist.Error()) {
		t.Errorf("plan could not read %v; want the kubelet's file", p.Unread)
	}
	k.Change(func() { k.Err = nil })
	k.Give("o", cpuset.Of(2))
	problem("KubeletUnread", 0)
	k.Change(func() { k.Err = errors.New("unexpected end of JSON input") }) // half written
	k.Reconcile()
	problem("KubeletUnread", 1)
	k.Check(map[string]string{id: "0-1"})
	k.Change(func() { k.Err, k.Policy, k.Held = nil, "none", nil }) // another policy
	k.Reconcile()
	problem("KubeletUnread", 0)
	problem("KubeletNotStatic", 1)
	k.Change(func() { k.Policy = "static" })
	k.Reconcile()
	problem("KubeletNotStatic", 0)
	problem("KubeletUnheard", 0)
	n.Runtime.NRIDown()
	problem("KubeletUnheard", 1)
	if err := n.Runtime.NRIUp(); err != nil {
		t.Fatal(err)
	}
	problem("KubeletUnheard", 0)
}

// TestOtherManagersWithKubelet checks that containers which came with CPUs while cpupoold allocated
// them count as the kubelet's when the kubelet allocates CPUs.
func TestOtherManagersWithKubelet(t *testing.T) {
	n := newStaticNode(t)
	k := n.Static
	id := k.Run("m", "kube-system", "app", nodefixture.Management(map[string]int{"app": 409}))
	boot, err := kernelfs.BootID()
	if err == nil {
		err = undo.File{Name: n.Host().JournalFile}.Save(undo.Document{BootID: boot, Others: []managers.Left{{PodUID: "m", Container: "app"}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	r := n.start()
	n.AwaitCPUs(id, "0-1")
	r.quiet()
}

// TestKubeletResizes checks that a resize of the kubelet's own container has its effect, and
// that a resize of a management pod keeps CPUs and annotated shares.
func TestKubeletResizes(t *testing.T) {
	n := newStaticNode(t)
	k := n.Static
	r := n.start()
	r.connected()
	id := k.Run("m", "kube-system", "app", nodefixture.Management(map[string]int{"app": 409}))
	other := k.Run("s", "default", "app", nil)
	for _, c := range []string{id, other} {
		if err := n.Runtime.Resize(c, cri.Resources{Shares: 1024}); err != nil {
			t.Fatal(err)
		}
	}
	k.Check(map[string]string{id: "0-1"})
	r.quiet()
	if of, than := n.State(other).Weight, n.State(k.Run("t", "default", "app", nil)).Weight; of <= than {
		t.Errorf("the kubelet's own container has weight %d after its resize; want more than before, %d", of, than)
	}
	k.Check(map[string]string{id: "0-1"})
}
