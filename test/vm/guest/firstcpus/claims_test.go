//go:build guest

package firstcpus_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	planner "github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
)

// claimPools gives CPUs 6-7 to ResourceClaims. The shared pool has them while no claim does.
const claimPools = "cpus: 4-5\n  claims:\n    cpus: 6-7\n    idle: shared"

// claimNode prepares claims in the place of the kubelet's plugin.
type claimNode struct {
	*course

	client *control.Client
	device string // of the claim pool
}

// cdiFile returns the CDI file of a claim.
func cdiFile(uid string) string { return filepath.Join("/var/run/cdi", "cpu.cpupoold.io-"+uid+".json") }

// prepare gives a claim of a pod its CPUs, and writes its CDI file, as the plugin does.
func (n *claimNode) prepare(uid, podUID string, cpus int) (cpuset.Set, error) {
	ctx, cancel := patiently()
	defer cancel()
	got, err := n.client.PrepareClaim(ctx, planner.Claim{UID: uid, Namespace: "default", Name: uid, PodUID: podUID,
		Parts: []planner.ClaimPart{{Request: "cpus", Device: n.device, CPUs: cpus}}})
	if err != nil {
		return cpuset.Set{}, err
	}
	n.writeCDI(uid, got[0].CPUs)
	return got[0].CPUs, nil
}

func (n *claimNode) writeCDI(uid string, cpus cpuset.Set) {
	n.Helper()
	text := fmt.Sprintf(`{"cdiVersion": "0.6.0", "kind": "cpu.cpupoold.io/claim", "devices": [{"name": %q, "containerEdits": {"env": [%q]}}]}`,
		uid, "DRA_CPUSET_"+uid+"="+cpus.String())
	if err := errors.Join(os.MkdirAll(filepath.Dir(cdiFile(uid)), 0o755), os.WriteFile(cdiFile(uid), []byte(text), 0o644)); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { _ = os.Remove(cdiFile(uid)) })
}

// useClaim returns a change of a request: the container uses a claim.
func useClaim(uid string) func(*runtime.CreateContainerRequest) {
	return func(r *runtime.CreateContainerRequest) {
		r.Config.CDIDevices = []*runtime.CDIDevice{{Name: "cpu.cpupoold.io/claim=" + uid}}
	}
}

// limit gives a container a limit of 10m. Without the CPUs of a claim, its process would need minutes to begin.
func limit(r *runtime.CreateContainerRequest) {
	r.Config.Linux.Resources = &runtime.LinuxContainerResources{CpuShares: 10, CpuQuota: 1000, CpuPeriod: 100_000}
}

// TestClaims checks that a container with a claim runs on the claim's CPUs from its first instruction. It keeps them over restarts of daemon
// and runtime, an external write, a reload of systemd and an offline CPU.
func TestClaims(t *testing.T) {
	if g := guestnode.New(t); !g.Runtime.NRI || isOld(g) {
		t.Skip("the runtime has no NRI, or no CDI")
	}
	allowTime(t)
	n := &claimNode{course: &course{newNode(t), make(map[string]int), make(map[string]int)}, client: control.NewClient(control.Socket("/run/cpupoold"))}
	n.StartDaemon(fmt.Sprintf(pools, "2-3", claimPools))
	n.connected()
	all, err := n.client.Claims(t.Context(), 0, control.Wait{})
	if err != nil || !all.Ready || len(all.Devices) != 1 || all.Devices[0].CPUs.String() != "6-7" {
		t.Fatalf("devices %+v, %v; want one with CPUs 6-7", all, err)
	}
	n.device = all.Devices[0].Name
	shared, err := n.start(500)
	if err != nil {
		t.Fatal(err)
	}
	lent, rest, own := place{cpuset.Of(2, 3, 6, 7), 4}, place{cpuset.Range(2, 3), 2}, place{cpuset.Range(6, 7), 2}
	n.inside(shared, lent)

	const uid = "11111111-0000-4000-8000-000000000001"
	owner, err := n.startWith(1, func(r *runtime.CreateContainerRequest) {
		useClaim(uid)(r)
		limit(r)
		if cpus, err := n.prepare(uid, r.GetSandboxConfig().GetMetadata().GetUid(), 2); err != nil || !cpus.Equal(own.pool) {
			t.Errorf("prepared claim = %s, %v; want CPUs %s", cpus, err, own.pool)
		}
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, n.Evidence())
	}
	n.check(owner, "claim", own)
	n.inside(shared, rest)
	n.keepsClaim("after the start", owner, own)

	n.Run("systemctl", "restart", "cpupoold")
	n.connected()
	n.keepsClaim("after a restart of the daemon", owner, own)
	restart(n.Node)
	n.connected()
	n.keepsClaim("after a restart of the runtime", owner, own)
	st, err := n.cgroup(owner)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("/sys/fs/cgroup", string(st.Path), "cpuset.cpus"), []byte("0-3"), 0o644); err != nil {
		t.Fatal(err)
	}
	n.keepsClaim("after an external write", owner, own)
	n.Run("systemctl", "daemon-reload")
	n.keepsClaim("after a reload of systemd", owner, own)
	online := "/sys/devices/system/cpu/cpu7/online"
	for _, step := range []struct {
		value string
		where place
	}{{"0", place{cpuset.Of(6), 1}}, {"1", own}} {
		if err := os.WriteFile(online, []byte(step.value), 0o644); err != nil {
			t.Fatal(err)
		}
		n.keepsClaim("with cpu7/online "+step.value, owner, step.where)
	}
	n.sharesClaim(uid, owner, own)
	n.refusesClaims(uid)
	n.endsClaim(uid, owner)
	n.inside(shared, lent)
}

// keepsClaim checks that a container is on its claim's CPUs and has no quota, as its pod.
func (n *claimNode) keepsClaim(when string, p pod, where place) {
	n.Helper()
	n.inside(p, where)
	n.Settled()
	n.inside(p, where)
	n.Eventually("no quota "+when, func() error {
		st, err := n.cgroup(p)
		if err != nil {
			return err
		}
		slice, err := n.FS.Read(st.Path.Parent())
		if err == nil && (st.Quota > 0 || slice.Quota > 0) {
			err = fmt.Errorf("quota of the container %d, of its pod %d; want none", st.Quota, slice.Quota)
		}
		return err
	})
	n.Logf("%s: on CPUs %s", when, where.pool)
}

// sharesClaim starts a second container of the pod on the same claim.
func (n *claimNode) sharesClaim(uid string, owner pod, own place) {
	n.Helper()
	ctx, cancel := patiently()
	defer cancel()
	second := n.again(owner, "second")
	id, err := n.beginAgain(ctx, second)
	if err != nil {
		n.Fatalf("second container: %v\n%s", err, n.Evidence())
	}
	both := owner
	both.container = id
	n.keepsClaim("a second container", both, own)
	n.keepsClaim("beside a second container", owner, own)
	n.stop(ctx, id)
}

// refusesClaims checks that other pods do not get the claim's CPUs. containerd reports CDI devices, and the daemon refuses such a container.
// CRI-O reports only the variable, which an author can forge. There, the container runs in the shared pool.
func (n *claimNode) refusesClaims(uid string) {
	n.Helper()
	const unknown = "22222222-0000-4000-8000-000000000002"
	n.writeCDI(unknown, cpuset.Range(6, 7))
	rest := place{cpuset.Range(2, 3), 2}
	for name, claim := range map[string]string{"another pod": uid, "a claim that is not prepared": unknown} {
		p, err := n.startWith(1, useClaim(claim))
		switch {
		case n.Runtime.Name == "cri-o" && err == nil:
			n.inside(p, rest)
		case err == nil || !strings.Contains(err.Error(), claim):
			n.Errorf("%s: container %s, error %v; want a refusal that names the claim", name, p.container, err)
		}
	}
	forger, err := n.start(500, &runtime.KeyValue{Key: "DRA_CPUSET_" + uid, Value: []byte("6-7")})
	if err != nil {
		n.Fatalf("container with a forged variable: %v", err)
	}
	n.inside(forger, rest)
}

// endsClaim ends a claim. That fails while the container of the claim runs.
func (n *claimNode) endsClaim(uid string, owner pod) {
	n.Helper()
	ctx, cancel := patiently()
	defer cancel()
	err := n.client.EndClaim(ctx, uid, "")
	if _, inUse := errors.AsType[control.Conflict](err); !inUse {
		n.Errorf("end of a claim in use: %v; want a conflict", err)
	}
	n.remove(owner.id)
	n.Eventually("end of the claim", func() error { return n.client.EndClaim(ctx, uid, "") })
}

// again returns the request for another container in a pod.
func (n *claimNode) again(p pod, name string) *runtime.CreateContainerRequest {
	r, ok := proto.Clone(p.request).(*runtime.CreateContainerRequest)
	if !ok {
		n.Fatal("the clone of a request is no request")
	}
	r.Config.Metadata.Name, r.Config.Labels["io.kubernetes.container.name"], r.Config.LogPath = name, name, name+".log"
	return r
}

func (n *claimNode) stop(ctx context.Context, id string) {
	n.Helper()
	if _, err := n.rpc.StopContainer(ctx, &runtime.StopContainerRequest{ContainerId: id}); err != nil {
		n.Errorf("stop container: %v", err)
	}
}
