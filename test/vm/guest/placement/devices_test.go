//go:build guest

package placement_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	resourceapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/test/vm/internal/deviceplugin"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

const resourceSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

// Resources that the plugins offer. Which NUMA node a container's device is near is chosen by the resource's name.
const (
	nicOf0    = "cpupoold.io/nic0"
	nicOf1    = "cpupoold.io/nic1"
	nicOfBoth = "cpupoold.io/nic-both"
	nicOfNone = "cpupoold.io/nic-none"
)

// offerDevices has device plugins offer eight devices of each resource until the end of the test, and waits until the kubelet knows them.
func (n *node) offerDevices() {
	n.Helper()
	var want []string
	for resource, nodes := range map[string][]int64{nicOf0: {0}, nicOf1: {1}, nicOfBoth: {0, 1}, nicOfNone: nil} {
		devices := make(map[string][]int64)
		for i := range 8 {
			id := fmt.Sprintf("%s-%d", filepath.Base(resource), i)
			devices[id] = nodes
			want = append(want, id)
		}
		p, err := deviceplugin.Start(n.Context(), deviceapi.DevicePluginPath, deviceplugin.Resource{Name: resource, Devices: devices})
		if err != nil {
			n.Fatal(err)
		}
		n.Cleanup(func() {
			if err := p.Stop(); err != nil {
				n.Error(err)
			}
		})
	}
	n.Eventually("devices at the kubelet", func() error {
		conn, err := grpc.NewClient("unix://"+resourceSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer conn.Close()
		all, err := resourceapi.NewPodResourcesListerClient(conn).GetAllocatableResources(n.Context(), &resourceapi.AllocatableResourcesRequest{})
		if err != nil {
			return err
		}
		known := make(map[string]bool)
		for _, d := range all.GetDevices() {
			for _, id := range d.GetDeviceIds() {
				known[id] = true
			}
		}
		for _, id := range want {
			if !known[id] {
				return fmt.Errorf("the kubelet does not know device %s", id)
			}
		}
		return nil
	})
}

// near returns a container that requests exclusive CPUs and a device of each resource.
func near(name string, cpus int, resources ...string) manifest.Container {
	c := whole(name, cpus)
	c.Extra = make(map[string]string)
	for _, r := range resources {
		c.Extra[r] = "1"
	}
	return c
}

// TestPodResources checks that pkg/podresources reads the devices of real containers from a real kubelet as the
// plugins have reported them.
func TestPodResources(t *testing.T) {
	n := newNode(t)
	n.offerDevices()
	side := near("side", 1, nicOf0)
	side.CPU = "100m"
	n.apply(
		pod("a", near("app", 1, nicOf1), side, whole("plain", 1)),
		pod("b", near("app", 1, nicOf0, nicOf1)), pod("c", near("app", 1, nicOfBoth)), pod("d", near("app", 1, nicOfNone)),
	)
	client, err := podresources.Dial(resourceSocket)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	all, err := client.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type container = podresources.Container
	want := []container{
		{Namespace: "default", Pod: n.FullName("a"), Name: "app", Nodes: cpuset.Of(1)},
		{Namespace: "default", Pod: n.FullName("a"), Name: "plain"},
		{Namespace: "default", Pod: n.FullName("a"), Name: "side", Nodes: cpuset.Of(0)},
		{Namespace: "default", Pod: n.FullName("b"), Name: "app", Nodes: cpuset.Of(0, 1)},
		{Namespace: "default", Pod: n.FullName("c"), Name: "app", Nodes: cpuset.Of(0, 1)},
		{Namespace: "default", Pod: n.FullName("d"), Name: "app"},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	// The container itself has the devices that the kubelet reports.
	p, err := n.find("a", "app")
	if err != nil {
		t.Fatal(err)
	}
	if got := n.environment(string(p)); !strings.HasPrefix(got, "nic1-") {
		t.Errorf("%s in container a/app = %q; want a device of %s", deviceplugin.Env, got, nicOf1)
	}
}

// environment returns the plugin's variable in the environment of a cgroup's first
// process.
func (n *node) environment(path string) string {
	n.Helper()
	pids, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", path, "cgroup.procs"))
	if err != nil {
		n.Fatal(err)
	}
	fields := strings.Fields(string(pids))
	if len(fields) == 0 {
		n.Fatalf("no process in %s", path)
	}
	environ, err := os.ReadFile("/proc/" + fields[0] + "/environ")
	if err != nil {
		n.Fatal(err)
	}
	for v := range strings.SplitSeq(string(environ), "\x00") {
		if value, ok := strings.CutPrefix(v, deviceplugin.Env+"="); ok {
			return value
		}
	}
	return ""
}

// on is a rule for so many CPUs, all of one NUMA node.
func on(node, cpus int) rule { return rule{cpus: cpus, node: &node} }

// TestDevices checks that the daemon chooses CPUs on the NUMA node of the container's device, on each node and under each policy that
// uses hints. When the node has no CPUs left, best-effort takes others, and the other two refuse.
func TestDevices(t *testing.T) {
	m := readMachine(t)
	for policy, late := range map[string]rule{
		"best-effort":      {cpus: 1},
		"restricted":       {code: allocate.NotOnHintedNodes},
		"single-numa-node": {code: allocate.NotOnOneNode},
	} {
		t.Run(policy, func(t *testing.T) {
			n := newNode(t)
			n.offerDevices()
			n.StartDaemon(n.fixed(option("topology-policy", policy)))
			// Alternating, so that no order of nodes gives the same by chance.
			n.apply(pod("a", near("app", 1, nicOf1)), pod("b", near("app", 1, nicOf0)), pod("c", near("app", 1, nicOf1)))
			want := expectations{"a/app": on(1, 1), "b/app": on(0, 1), "c/app": on(1, 1)}
			before := n.meets(want)

			// The rest of node 1, then one more of it.
			rest := m.free(1).Len() - 2
			n.apply(pod("fill", near("app", rest, nicOf1)))
			n.apply(pod("late", near("app", 1, nicOf1)), pod("d", near("app", 1, nicOf0)))
			want["fill/app"], want["late/app"], want["d/app"] = on(1, rest), late, on(0, 1)
			after := n.meets(want)
			stays(t, before, after, "a/app", "b/app", "c/app")

			n.Run("systemctl", "restart", "cpupoold")
			again := n.meets(want)
			stays(t, after, again, slices.Collect(owners(want))...)
			if late.exclusive() {
				return
			}
			// The refused container waits for CPUs of that node, not of any.
			n.Withdraw("fill")
			delete(want, "fill/app")
			want["late/app"] = on(1, 1)
			stays(t, again, n.meets(want), "a/app", "b/app", "c/app", "d/app")
		})
	}
}

// owners returns the filter for containers with exclusive CPUs.
func owners(want expectations) func(func(name) bool) {
	return func(yield func(name) bool) {
		for who, r := range want {
			if r.exclusive() && !yield(who) {
				return
			}
		}
	}
}

// TestDevicesIgnored checks that no container is refused without a policy for hints, or
// without hints.
func TestDevicesIgnored(t *testing.T) {
	n := newNode(t)
	n.offerDevices()
	n.StartDaemon(n.fixed(option("topology-policy", "none")))
	across := n.free(1).Len() + 1
	n.apply(pod("a", near("app", across, nicOf1)))
	n.meets(expectations{"a/app": {cpus: across}})
	n.Withdraw("a")
	n.StopDaemon()
	n.StartDaemon(n.fixed(option("topology-policy", "restricted")))
	n.apply(pod("b", near("app", 2, nicOfNone)), pod("c", near("app", 2, nicOfBoth)))
	n.meets(expectations{"b/app": {cpus: 2, nodes: 1}, "c/app": {cpus: 2}})
}

// TestDevicesFail checks onRefusal: fail for a container without CPUs near its device. The container is never created. On a runtime
// without NRI, the daemon stops it after each start. It runs as soon as CPUs near the device are free.
func TestDevicesFail(t *testing.T) {
	for _, way := range []struct {
		name, lines, record string
		created             bool
	}{
		{name: "with NRI", record: "refused, and not created"},
		{name: "without NRI", lines: "nriSocket: none\n", record: "stopping refused container", created: true},
	} {
		t.Run(way.name, func(t *testing.T) {
			n := newNode(t)
			n.offerDevices()
			n.StartDaemon(n.fixed("  onRefusal: fail\n"+option("topology-policy", "single-numa-node")) + way.lines)
			if !way.created {
				n.Eventually("NRI", func() error { return n.logged("NRI is connected: containers are placed before they exist") })
			}
			all := n.free(1).Len()
			n.apply(pod("fill", near("app", all, nicOf1)))
			before := n.meets(expectations{"fill/app": on(1, all)})
			n.reserve(pod("late", near("app", 1, nicOf1)))
			n.Eventually("refusal", func() error { return n.logged(way.record) })
			n.Eventually("stop of the refused container", func() error {
				if _, err := n.find("late", "app"); err == nil {
					return errors.New("it runs")
				}
				return nil
			})
			if created := n.created("late"); created != way.created {
				t.Errorf("pod late has had a container: %v; want %v\n%s", created, way.created, n.Evidence())
			}
			stays(t, before, n.meets(expectations{"fill/app": on(1, all)}), "fill/app")
			n.Withdraw("fill")
			n.meets(expectations{"late/app": on(1, 1)}) // when the kubelet's back-off has passed
		})
	}
}

// logged checks that the daemon has logged a message since its start.
func (n *node) logged(message string) error {
	id := strings.TrimSpace(n.Run("systemctl", "show", "-P", "InvocationID", "cpupoold"))
	log := n.Run("journalctl", "--no-pager", "-o", "cat", "_SYSTEMD_INVOCATION_ID="+id)
	if !strings.Contains(log, fmt.Sprintf("%q:%q", "msg", message)) {
		return fmt.Errorf("the daemon has not logged %q", message)
	}
	return nil
}

// created reports whether a pod has, or has had, a container.
func (n *node) created(pod string) bool {
	n.Helper()
	pods, containers, err := n.Client.List(n.Context())
	if err != nil {
		n.Fatal(err)
	}
	return slices.ContainsFunc(containers, func(c cri.Container) bool {
		return slices.ContainsFunc(pods, func(p cri.Pod) bool { return p.ID == c.PodID && n.ShortName(p.Name) == pod })
	})
}

// TestKubeletAway checks that containers keep their CPUs when the daemon starts while no kubelet can report their
// devices.
func TestKubeletAway(t *testing.T) {
	n := newNode(t)
	n.offerDevices()
	n.StartDaemon(n.fixed(option("topology-policy", "single-numa-node")))
	n.apply(pod("a", near("app", 2, nicOf1)), pod("b", near("app", 1, nicOf0)))
	want := expectations{"a/app": on(1, 2), "b/app": on(0, 1)}
	before := n.meets(want)
	n.Run("systemctl", "stop", "kubelet")
	defer n.Run("systemctl", "start", "kubelet")
	n.Run("systemctl", "restart", "cpupoold")
	stays(t, before, n.meets(want), "a/app", "b/app")
}
