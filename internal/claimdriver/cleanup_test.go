package claimdriver_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// known returns a claim that is prepared on the node.
func known(c *resourcev1.ResourceClaim) inspect.Claim {
	r := c.Status.Allocation.Devices.Results[0]
	return inspect.Claim{
		UID: string(c.UID), Namespace: c.Namespace, Name: c.Name, PodUID: string(c.Status.ReservedFor[0].UID), CPUs: cpuset.Range(2, 3),
		Parts: []inspect.ClaimPart{{Request: r.Request, Device: r.Device, ShareID: string(*r.ShareID), CPUs: cpuset.Range(2, 3)}},
	}
}

// TestOrphans checks which claims end without a call of the kubelet.
func TestOrphans(t *testing.T) {
	answer := func(err error) func(*node) {
		return func(n *node) {
			n.api.PrependReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		}
	}
	group := resourcev1.SchemeGroupVersion.WithResource("resourceclaims").GroupResource()
	proxy := apierrors.NewGenericServerResponse(404, "get", group, "du-1", "page not found", 0, true)
	for name, tt := range map[string]struct {
		api    func(*resourcev1.ResourceClaim) *resourcev1.ResourceClaim // the claim of the API server
		node   func(*inspect.Claim)
		before func(*node)
		ends   bool
	}{
		"in use":              {},
		"no claim":            {api: func(*resourcev1.ResourceClaim) *resourcev1.ResourceClaim { return nil }, ends: true},
		"no claim, container": {api: func(*resourcev1.ResourceClaim) *resourcev1.ResourceClaim { return nil }, node: func(c *inspect.Claim) { c.Pod, c.Containers = "ran/du", []string{"du"} }},
		"containers ended":    {api: func(*resourcev1.ResourceClaim) *resourcev1.ResourceClaim { return nil }, node: func(c *inspect.Claim) { c.Containers = []string{"du"} }, ends: true},
		"no claim, pod":       {api: func(*resourcev1.ResourceClaim) *resourcev1.ResourceClaim { return nil }, node: func(c *inspect.Claim) { c.Pod = "ran/du" }},
		"another UID":         {api: func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim { c.UID = uid(9); return c }, ends: true},
		"deallocated":         {api: func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim { c.Status.Allocation = nil; return c }, ends: true},
		"another pod": {api: func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
			c.Status.ReservedFor[0].UID = uid(9)
			return c
		}, ends: true},
		"another node": {api: func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
			c.Status.Allocation.Devices.Results[0].Pool = "other"
			return c
		}, ends: true},
		"API server away":         {before: answer(errors.New("connection refused"))},
		"API server refuses":      {before: answer(apierrors.NewForbidden(group, "du-1", errors.New("no")))},
		"a proxy answers":         {before: answer(proxy)},
		"API server has no claim": {before: answer(apierrors.NewNotFound(group, "du-1")), ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onNode, c := known(claim(1, "numa0", "2")), claim(1, "numa0", "2")
			if tt.node != nil {
				tt.node(&onNode)
			}
			if tt.api != nil {
				c = tt.api(c)
			}
			var objects []runtime.Object
			if c != nil {
				objects = append(objects, c)
			}
			n := newNode(t, objects...)
			if tt.before != nil {
				tt.before(n)
			}
			n.Daemon.Change(func(now *inspect.Claims) { now.Claims = []inspect.Claim{onNode} })
			n.Start("")
			file := "cpu.cpupoold.io_claim_" + onNode.UID + ".json"
			if tt.ends {
				nodefixture.Eventually(t, "the claim ends", func() bool { return !n.Daemon.Has(onNode.UID) })
				nodefixture.Eventually(t, "the claim is counted", func() bool { return strings.Contains(n.Get("/metrics"), "cpupool_dra_orphans_ended_total 1\n") })
				return
			}
			// The file is written after the decision about the claim.
			nodefixture.Eventually(t, "the CDI file of the claim", func() bool { return slices.Contains(n.CDIFiles(), file) })
			if !n.Daemon.Has(onNode.UID) {
				t.Error("the claim has ended")
			}
		})
	}
}

// TestEarlierPod checks that a claim can be prepared for a pod, if the kubelet has not ended it for an
// earlier pod.
func TestEarlierPod(t *testing.T) {
	earlier, c := known(claim(1, "numa0", "2")), claim(1, "numa0", "2")
	earlier.PodUID, earlier.Pod, earlier.Containers = string(uid(9)), "ran/du", []string{"du"}
	n := newNode(t, c)
	n.Daemon.Change(func(now *inspect.Claims) { now.Claims = []inspect.Claim{earlier} })
	n.Start("")
	if a := n.Prepare(c); !strings.Contains(a.Error, "another pod") {
		t.Errorf("prepare while a container of the earlier pod runs = %v; want a refusal", a)
	}
	n.Daemon.Change(func(now *inspect.Claims) { now.Claims[0].Pod = "" }) // the names of its containers remain
	if a := n.Prepare(c); a.Error != "" || len(a.Devices) != 1 {
		t.Errorf("prepare = %v; want a device", a)
	}
	if got := n.Daemon.Claims().Claims[0].PodUID; got != string(uid(2001)) {
		t.Errorf("the claim is prepared for pod %s", got)
	}
}

// TestOrphanOfAnotherPod checks that an orphan does not end if another instance of the driver prepares the claim for
// another pod while this one reads the claim of the API server.
func TestOrphanOfAnotherPod(t *testing.T) {
	t.Parallel()
	c := claim(1, "numa0", "2")
	n := newNode(t)
	n.Daemon.Change(func(now *inspect.Claims) { now.Claims = []inspect.Claim{known(c)} })
	pod := 3000
	n.api.PrependReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		n.Daemon.Change(func(now *inspect.Claims) {
			pod++
			now.Claims = slices.Clone(now.Claims)
			for i := range now.Claims {
				now.Claims[i].PodUID = string(uid(pod))
			}
		})
		return false, nil, nil // the earlier claim is gone
	})
	n.Start("new")
	nodefixture.Eventually(t, "the CDI file of the claim", func() bool {
		return slices.Contains(n.CDIFiles(), "cpu.cpupoold.io_claim_"+string(c.UID)+".json")
	})
	if !n.Daemon.Has(string(c.UID)) {
		t.Error("the claim of another pod has ended")
	}
}

// TestFilesAtStart checks that the files of known claims are restored, and that old files of unknown claims
// are removed.
func TestFilesAtStart(t *testing.T) {
	c := claim(1, "numa0", "2")
	n := newNode(t, c)
	n.Daemon.Change(func(now *inspect.Claims) { now.Claims = []inspect.Claim{known(c)} })
	metadata := filepath.Join(n.Dir, "kubelet/plugins/cpu.cpupoold.io/dra-device-metadata")
	registry := filepath.Join(n.Dir, "kubelet/plugins_registry")
	for _, dir := range []string{metadata + "/ran_du-1", metadata + "/ran_du-2", n.Dir + "/cdi"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	stale := []string{"cpu.cpupoold.io_claim_" + string(uid(2)) + ".json", "cpu.cpupoold.io_metadata_" + string(uid(2)) + "_cpus.json"}
	kept := []string{"cpu.cpupoold.io_claim_" + string(uid(3)) + ".json", "nic.example.com_claim_" + string(uid(2)) + ".json"}
	for _, name := range slices.Concat(stale, kept) {
		if err := os.WriteFile(filepath.Join(n.Dir, "cdi", name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("unix", filepath.Join(registry, "cpu.cpupoold.io-old-reg.sock"))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	old := time.Now().Add(-time.Hour)
	for _, path := range []string{n.Dir + "/cdi/" + stale[0], n.Dir + "/cdi/" + stale[1], n.Dir + "/cdi/" + kept[1], metadata + "/ran_du-1", metadata + "/ran_du-2", l.Addr().String()} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	n.Start("new")
	want := append(kept, "cpu.cpupoold.io_claim_"+string(c.UID)+".json")
	slices.Sort(want)
	nodefixture.Eventually(t, "the files of the known claim, young files, and files of other drivers", func() bool { return slices.Equal(n.CDIFiles(), want) },
		func() string { return strings.Join(n.CDIFiles(), " ") })
	nodefixture.Eventually(t, "no metadata of the unknown claim", func() bool {
		_, err := os.Stat(metadata + "/ran_du-2")
		return errors.Is(err, os.ErrNotExist)
	})
	if _, err := os.Stat(metadata + "/ran_du-1"); err != nil {
		t.Errorf("metadata of the known claim: %v", err)
	}
	nodefixture.Eventually(t, "no socket of an instance that was killed", func() bool {
		_, err := os.Lstat(l.Addr().String())
		return errors.Is(err, os.ErrNotExist)
	})
	if got, err := n.api.ResourceV1().ResourceClaims("ran").Get(t.Context(), "du-1", metav1.GetOptions{}); err != nil || got.UID != c.UID {
		t.Errorf("claim of the API server: %v, %v", got, err)
	}
}

// TestFileOfAnotherPreparation checks that the restored file of a claim has the CPUs of the last preparation, if the
// claim ends and is prepared again while the driver looks for orphans.
func TestFileOfAnotherPreparation(t *testing.T) {
	t.Parallel()
	c, first := claim(1, "numa0", "2"), claim(0, "numa1", "2")
	n := newNode(t, first, c)
	other := known(first)
	other.Pod = "ran/first"
	n.Daemon.Change(func(now *inspect.Claims) { now.Claims = []inspect.Claim{other, known(c)} })
	n.api.PrependReactor("get", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.(clienttesting.GetAction).GetName() == first.Name {
			return true, nil, errors.New("away") // so that no status is written, and the next request is of the search
		}
		n.Daemon.Change(func(now *inspect.Claims) {
			again := now.Claims[1]
			again.Parts = slices.Clone(again.Parts)
			again.Parts[0].CPUs = cpuset.Range(4, 5)
			now.Claims[1] = again
		})
		return false, nil, nil
	})
	n.Start("")
	file := filepath.Join(n.Dir, "cdi", "cpu.cpupoold.io_claim_"+string(c.UID)+".json")
	nodefixture.Eventually(t, "the CDI file of the claim", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	if got, err := os.ReadFile(file); err != nil || !strings.Contains(string(got), "CPUPOOL_CPUS=4-5") {
		t.Errorf("CDI file = %s, %v; want CPUs 4-5", got, err)
	}
}
