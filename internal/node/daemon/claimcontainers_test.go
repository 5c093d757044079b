package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// tiny is the kubelet's request for a limit of 1m.
func tiny() cri.Resources { return cri.Resources{Shares: 2, Quota: 1000, Period: 100_000} }

// prepareFor prepares a claim for a pod, and returns its CPUs.
func (r *running) prepareFor(uid, pod string, cpus int) string {
	r.T.Helper()
	got, err := r.claimFuncs().Prepare(r.T.Context(), pools.Claim{UID: uid, Namespace: "ran", Name: uid, PodUID: pod, Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa1", CPUs: cpus}}})
	if err != nil {
		r.T.Fatal(err)
	}
	var all cpuset.Set
	for _, c := range got {
		all = all.Union(c.CPUs)
	}
	return all.String()
}

// createWith creates a container with claims as a runtime shows them: UID=CPUs for each claim.
func (n *node) createWith(pod, name string, claims ...string) (string, error) {
	n.T.Helper()
	s := testnode.ContainerSpec{Name: name, Attempt: n.NextAttempt(pod, name), Resources: tiny()}
	for _, c := range claims {
		uid, _, _ := strings.Cut(c, "=")
		s.CDIDevices, s.Env = append(s.CDIDevices, cri.ClaimDevice+"="+uid), append(s.Env, cri.ClaimVariable+c)
	}
	return n.Runtime.CreateContainer(pod, s)
}

// beginWith is createWith, and starts the container. It returns the CPUs on which its first process began.
func (n *node) beginWith(pod, name string, claims ...string) (id, on string) {
	n.T.Helper()
	id, err := n.createWith(pod, name, claims...)
	if err == nil {
		err = n.Runtime.StartContainer(id)
	}
	if err != nil {
		n.T.Fatal(err)
	}
	return id, n.Runtime.BeganOn(id).String()
}

// awaitProblem waits until a problem with a code and a text is reported, or with an empty text until
// none with the code is.
func (r *running) awaitProblem(code pools.Code, text string) {
	r.T.Helper()
	r.Eventually(fmt.Sprintf("problem %s %q", code, text), func() bool {
		latest := r.loop.publisher.Latest()
		if latest == nil {
			return false
		}
		for _, p := range latest.Problems {
			if p.Code == code {
				return text != "" && strings.Contains(p.Text, text)
			}
		}
		return text == ""
	})
}

// TestClaimContainer checks that a container with a claim begins on the CPUs of the claim without a
// quota. The other containers of its pod are placed as usual. One runtime reports CDI devices, the
// other the environment alone. The daemon and the runtime restart.
func TestClaimContainer(t *testing.T) {
	for name, flavor := range map[string]testnode.Flavor{"devices": testnode.Containerd, "environment": testnode.CRIO} {
		t.Run(name, func(t *testing.T) {
			n := newNodeWith(t, testnode.RuntimeConfig{Flavor: flavor, NRI: true})
			n.YAML = claimYAML
			r := n.start()
			r.connected()
			if got := r.prepareFor("one", "gpu", 2); got != "6-7" {
				t.Fatalf("claim on CPUs %s; want 6-7", got)
			}
			r.stop()
			r = n.start() // between prepare and create
			r.connected()
			pod := n.RunPodOf("gpu", "ran", "guaranteed", tiny(), nil)
			app, on := n.beginWith(pod, "app", "one=6-7")
			if on != "6-7" {
				t.Errorf("container with a claim began on %s; want 6-7", on)
			}
			if other, on := n.beginWith(pod, "other"); on != "2-3" {
				t.Errorf("container %s without a claim began on %s; want 2-3", other, on)
			}
			unlimited := func(what string) {
				t.Helper()
				n.Eventually("no quota "+what, func() bool {
					return n.State(app).Quota < 0 && n.StateAt(cgroup.Path(n.Runtime.Cgroup(app)).Parent()).Quota < 0
				})
			}
			unlimited("of container and pod")
			r.quiet()
			_, err := r.claimFuncs().Prepare(t.Context(), pools.Claim{UID: "one", Namespace: "ran", Name: "one", PodUID: "gpu", Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa1", CPUs: 2}}})
			if err != nil {
				t.Errorf("same claim again: %v", err)
			}
			if _, conflicts := errors.AsType[control.Conflict](r.end("one")); !conflicts {
				t.Error("the claim of a running container has ended; want a conflict")
			}

			r.stop()
			writes := len(n.Tree.Writes())
			r = n.start() // while the container runs
			r.connected()
			n.Runtime.NRIDown() // the runtime restarts
			r.awaitProblem("ClaimsWithoutNRI", "1 ResourceClaims")
			if err := n.Runtime.NRIUp(); err != nil {
				t.Fatal(err)
			}
			r.connected()
			r.quiet()
			if more := n.Tree.Writes()[writes:]; len(more) > 0 {
				t.Errorf("a daemon that starts again writes %v; want nothing", more)
			}
			n.WriteFile(app, "cpuset.cpus", "0-1")
			n.AwaitCPUs(app, "6-7")
			n.WriteFile(app, "cpu.max", "1000 100000")
			unlimited("after an external write")

			n.SetOnline(cpuset.Range(0, 6))
			n.AwaitCPUs(app, "6")
			n.SetOnline(cpuset.Range(0, 7))
			n.AwaitCPUs(app, "6-7")

			if err := n.Runtime.StopContainer(app); err != nil {
				t.Fatal(err)
			}
			if _, on := n.beginWith(pod, "app", "one=6-7"); on != "6-7" {
				t.Errorf("next instance began on %s; want 6-7", on)
			}
			if err := n.Runtime.StopPod(pod); err != nil {
				t.Fatal(err)
			}
			r.stop()
			r = n.start() // between the end of the pod and the end of the claim
			n.Eventually("end of the claim", func() bool { return r.end("one") == nil })
			r.connected()
			if got := r.prepareFor("two", "next", 2); got != "6-7" {
				t.Errorf("next claim on CPUs %s; want 6-7", got)
			}
			r.awaitProblem("ClaimVariable", "")
		})
	}
}

// TestSharedClaim checks that a second container of the pod runs on the CPUs of the claim. The
// partition of the first one ends before, and its CPUs do not change.
func TestSharedClaim(t *testing.T) {
	for _, kernel := range [][2]int{{6, 12}, {6, 18}, {7, 0}} {
		t.Run(fmt.Sprint(kernel), func(t *testing.T) {
			n := newPartitionNode(t, kernel[0], kernel[1], testnode.RuntimeConfig{NRI: true})
			n.YAML = nodefixture.WithPartitions(claimYAML)
			r := n.start()
			r.connected()
			r.prepareFor("one", "gpu", 2)
			pod := n.RunPod("gpu", "ran", "burstable", 0, nil)
			first, on := n.beginWith(pod, "first", "one=6-7")
			if on != "6-7" {
				t.Errorf("first container began on %s; want 6-7", on)
			}
			n.AwaitPartition(first, cgroup.RootPartition)
			r.quiet()
			writes := len(n.Tree.Writes())
			end := n.RefuseWrites(cgroup.Path(n.Runtime.Cgroup(first)), cgroup.FilePartition)
			if _, err := n.createWith(pod, "second", "one=6-7"); err == nil || !strings.Contains(err.Error(), "CPUs 6-7 are not free yet") {
				t.Errorf("creation while the partition cannot end: %v; want an error", err)
			}
			end()
			var second string
			n.Eventually("creation of the second container, as the kubelet tries again", func() (created bool) {
				var err error
				second, err = n.createWith(pod, "second", "one=6-7")
				return err == nil
			})
			if err := n.Runtime.StartContainer(second); err != nil {
				t.Fatal(err)
			}
			if on := n.Runtime.BeganOn(second).String(); on != "6-7" {
				t.Errorf("second container began on %s; want 6-7", on)
			}
			r.quiet()
			for id, name := range map[string]string{first: "first", second: "second"} {
				if st := n.State(id); st.Effective.String() != "6-7" || !st.Partition.Is(cgroup.MemberPartition) {
					t.Errorf("%s container: CPUs %s, partition %v; want 6-7 and no partition", name, st.Effective, st.Partition)
				}
			}
			for _, w := range n.Tree.Writes()[writes:] {
				if w.Name == n.Runtime.Cgroup(first)+"/cpuset.cpus" {
					t.Errorf("write of %q to %s; want the CPUs of the first container unchanged", w.Value, w.Name)
				}
			}
			if lists := n.ExclusiveLists(); len(lists) > 0 {
				t.Errorf("exclusive lists %v; want none", lists)
			}
			n.CheckKernel()
		})
	}
}

// TestRefusedClaims checks that a container with a claim that is not prepared, or is for another pod, is
// not created, and that the error names cause and remedy.
func TestRefusedClaims(t *testing.T) {
	n := newNRINode(t)
	n.YAML = claimYAML
	r := n.start()
	r.connected()
	r.prepareFor("one", "gpu", 1)
	other := n.RunPod("other", "ran", "burstable", 0, nil)
	for claim, want := range map[string]string{
		"one=6":    "ran/other, container app: claim ran/one (one) is prepared for pod gpu, and the container is in pod other",
		"absent=7": `claim "absent" of CPUs is not prepared on this node; the kubelet must prepare it through the driver before it creates the container: check that cpupool-dra runs`,
	} {
		if _, err := n.createWith(other, "app", claim); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("creation with claim %s: %v; want %q", claim, err, want)
		}
	}
	if err := r.end("one"); err != nil {
		t.Errorf("end of a claim without containers: %v", err)
	}
	// The kubelet tries again after the claim is prepared.
	r.prepareFor("absent", "other", 1)
	if _, on := n.beginWith(other, "app", "absent=6"); on != "6" {
		t.Errorf("container of the claim began on %s; want 6", on)
	}
	r.quiet()
}

// TestForgedClaims checks that a variable in the environment gives no CPUs of a claim of another pod, and
// that the container is placed as usual.
func TestForgedClaims(t *testing.T) {
	for name, flavor := range map[string]testnode.Flavor{"containerd": testnode.Containerd, "CRI-O": testnode.CRIO} {
		t.Run(name, func(t *testing.T) {
			n := newNodeWith(t, testnode.RuntimeConfig{Flavor: flavor, NRI: true})
			n.YAML = claimYAML
			r := n.start()
			r.connected()
			r.prepareFor("one", "gpu", 1)
			thief := n.RunPod("thief", "ran", "burstable", 0, nil)
			for i, forged := range []string{"one=6", "one=7", "unknown=6", "one=0-7", "one="} {
				id, err := n.Runtime.CreateContainer(thief, testnode.ContainerSpec{Name: fmt.Sprint("app-", i), Resources: tiny(), Env: []string{cri.ClaimVariable + forged}})
				if err == nil {
					err = n.Runtime.StartContainer(id)
				}
				if on := n.Runtime.BeganOn(id).String(); err != nil || on != "2-3,7" {
					t.Errorf("container with %s began on %s, %v; want 2-3,7", forged, on, err)
				}
				r.awaitProblem("ClaimVariable", "DRA_CPUSET_")
			}
			r.quiet()
			if _, on := n.beginWith(n.RunPod("gpu", "ran", "burstable", 0, nil), "app", "one=6"); on != "6" {
				t.Errorf("container of the claim began on %s; want 6", on)
			}
			if err := n.Runtime.StopPod(thief); err != nil {
				t.Fatal(err)
			}
			r.awaitProblem("ClaimVariable", "")
		})
	}
}

// TestClaimWithoutNRI checks that prepared claims are reported while NRI is not connected. Containers
// that were created in this time get the CPUs of their claims afterwards.
func TestClaimWithoutNRI(t *testing.T) {
	n := newNRINode(t)
	n.YAML = claimYAML
	r := n.start()
	r.connected()
	answers := newAnswers(r.loop.publisher, r.loop.Cgroups, n.options())
	if c := answers.Claims(); !c.Ready || c.Problem != "" {
		t.Errorf("with NRI: ready %t, %q; want ready", c.Ready, c.Problem)
	}
	r.prepareFor("one", "gpu", 1)
	r.awaitProblem("ClaimsWithoutNRI", "")
	n.Runtime.NRIDown()
	r.awaitProblem("ClaimsWithoutNRI", "1 ResourceClaims have CPUs, and NRI is not connected")
	if c := answers.Claims(); c.Ready || !strings.Contains(c.Problem, "NRI is not connected") {
		t.Errorf("without NRI: ready %t, %q; want not ready", c.Ready, c.Problem)
	}
	app, _ := n.beginWith(n.RunPod("gpu", "ran", "burstable", 0, nil), "app", "one=6")
	n.AwaitCPUs(app, "2-3,7")
	if err := n.Runtime.NRIUp(); err != nil {
		t.Fatal(err)
	}
	n.AwaitCPUs(app, "6")
	r.awaitProblem("ClaimsWithoutNRI", "")
	r.quiet()
}

// TestClaimsOfLostJournal checks that containers of claims that a lost journal had are reported, and get
// CPUs when the claims are prepared again.
func TestClaimsOfLostJournal(t *testing.T) {
	n := newNRINode(t)
	n.YAML = claimYAML
	r := n.start()
	r.connected()
	r.prepareFor("one", "gpu", 1)
	app, _ := n.beginWith(n.RunPod("gpu", "ran", "burstable", 0, nil), "app", "one=6")
	r.quiet()
	r.stop()
	if err := os.Remove(filepath.Join(n.Dir, "journal.json")); err != nil {
		t.Fatal(err)
	}
	r = n.start()
	r.connected()
	r.awaitProblem("ClaimMissing", `claim "one" of CPUs is not prepared`)
	n.AwaitCPUs(app, "2-3,6-7")
	if got := r.prepareFor("one", "gpu", 1); got != "6" {
		t.Errorf("claim on CPUs %s; want 6", got)
	}
	n.AwaitCPUs(app, "6")
	r.awaitProblem("ClaimMissing", "")
	if _, conflicts := errors.AsType[control.Conflict](r.end("one")); !conflicts {
		t.Error("the claim of a running container has ended; want a conflict")
	}
}
