//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// claimPools is a configuration for eight CPUs in two NUMA nodes. ResourceClaims have two CPUs of each node.
const claimPools = `
    partitions:
    - type: management
      cpus: "0"
      namespaces: [kube-system, cpupoold, cpupool-webhook]
    shared:
      cpus: rest
    guaranteed:
      cpus: 4-5
      claims:
        cpus: 2-3,6-7
    units:
      du.service: {cpus: 1}
`

// The gate by which the scheduler counts the CPUs of claims as cpu, and the CPUs that the kubelet reserves with and without it.
const (
	countGate       = "DRANodeAllocatableResources"
	reservedWith    = "0"
	reservedWithout = "0,2-3,6-7"
)

// sharedByClaims is the shared pool of claimPools.
var sharedByClaims = cpuset.Of(1)

// claimCluster is a cluster of one node. Its pods use claims.
type claimCluster struct {
	*cluster

	nics string // program of the driver of NICs
}

// startClaims starts a cluster with cpupoold, a driver of NICs and the namespace apps. The kubelet reserves these CPUs.
func startClaims(t *testing.T, gates, reserved string) *claimCluster {
	t.Helper()
	c := &claimCluster{nics: buildNICDriver(t), cluster: startGated(t, gates, "8c2n")}
	c.reserve(t, reserved)
	c.run(t, "systemctl", "restart", "kubelet")
	c.bringImage(t, thisRelease())
	c.use(t, thisRelease())
	c.configure(t, claimPools)
	c.installDaemon(t, map[corev1.ResourceName]int64{shared: 1000})
	c.startNICs(t)
	c.namespace(t, "apps", "")
	return c
}

// reserve sets the CPUs that the kubelet reserves from its next start on.
func (c *claimCluster) reserve(t *testing.T, cpus string) {
	t.Helper()
	c.run(t, "sh", "-euc", `printf 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nreservedSystemCPUs: "%s"\n' "$0" >/etc/kubernetes/kubelet.conf.d/reserved.conf`, cpus)
}

// buildNICDriver returns the path of the program nicdriver.
func buildNICDriver(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "nicdriver")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./nicdriver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build nicdriver: %v\n%s", err, out)
	}
	return program
}

// startNICs starts the driver of a NIC on NUMA node 1 as a service of the node, and waits until the scheduler knows the NIC.
func (c *claimCluster) startNICs(t *testing.T) {
	t.Helper()
	m := c.machines[0]
	m.bring(t, c.nics, "/usr/local/bin/nicdriver")
	m.bring(t, filepath.Join(c.plane.programs, "super-admin.conf"), "/etc/kubernetes/nics.conf")
	m.bring(t, "testdata/claims/nicdriver.service", "/etc/systemd/system/nicdriver.service")
	m.run(t, "sh", "-euc", "systemctl daemon-reload; systemctl enable --now nicdriver")
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: nicClass}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + nicClass + `"`}}},
	}}
	if _, err := c.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.publishes(t, nicClass, func(devices []resourcev1.Device) error {
		if len(devices) != 1 {
			return fmt.Errorf("it has %d devices; want one", len(devices))
		}
		return nil
	})
}

// publishes waits until the devices of a driver on the node are right.
func (c *cluster) publishes(t *testing.T, driver string, right func([]resourcev1.Device) error) {
	t.Helper()
	eventually(t, "devices of "+driver, func(ctx context.Context) error {
		devices, err := c.devices(ctx, driver)
		if err != nil {
			return err
		}
		return right(devices)
	})
}

// devices returns the devices of a driver on the node.
func (c *cluster) devices(ctx context.Context, driver string) ([]resourcev1.Device, error) {
	slices, err := c.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + driver + ",spec.nodeName=" + nodeName})
	if err != nil {
		return nil, err
	}
	var all []resourcev1.Device
	for _, s := range slices.Items {
		all = append(all, s.Spec.Devices...)
	}
	return all, nil
}

// installDriver follows docs/how-to/use-resource-claims.md, and waits until the devices have this many CPUs each.
func (c *claimCluster) installDriver(t *testing.T) {
	t.Helper()
	read(t, "docs/how-to/use-resource-claims.md").follow(t, c.cluster, "kubectl apply -k deploy/dra", "kubectl -n cpupoold rollout status daemonset cpupool-dra")
	c.capacities(t, 2, 2)
}

// capacities waits until the devices of the NUMA nodes have these numbers of CPUs.
func (c *claimCluster) capacities(t *testing.T, cpus ...int64) {
	t.Helper()
	c.publishes(t, dra.Driver, func(devices []resourcev1.Device) error {
		if len(devices) != len(cpus) {
			return fmt.Errorf("it has %d devices; want %d", len(devices), len(cpus))
		}
		for i, d := range devices {
			capacity := d.Capacity[dra.Capacity].Value
			if node := d.Attributes[dra.NUMANode].IntValue; node == nil || *node != int64(i) || capacity.Value() != cpus[i] || len(d.Taints) > 0 {
				return fmt.Errorf("device %d is %+v; want NUMA node %d, %d CPUs and no taint", i, d, i, cpus[i])
			}
		}
		return nil
	})
}

// prepared returns the claims and devices of the node, by its daemon.
func (c *claimCluster) prepared(ctx context.Context) (*inspect.Claims, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return c.machines[0].Dial(ctx, "unix", "/run/cpupoold/cpupoold.sock")
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://cpupoold/v1/claims", nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	claims := new(inspect.Claims)
	if err := json.NewDecoder(answer.Body).Decode(claims); err != nil {
		return nil, fmt.Errorf("%s: %w", answer.Status, err)
	}
	return claims, nil
}

// free waits until these CPUs of the list have no claim.
func (c *claimCluster) free(t *testing.T, want string) {
	t.Helper()
	eventually(t, "CPUs "+want+" are free for claims", func(ctx context.Context) error {
		claims, err := c.prepared(ctx)
		if err != nil {
			return err
		}
		var free cpuset.Set
		for _, d := range claims.Devices {
			free = free.Union(d.Free)
		}
		if free.String() != want {
			return fmt.Errorf("the CPUs %s are; claims: %+v", free, claims.Claims)
		}
		return nil
	})
}

// has returns the CPUs of a claim by the daemon, and an error if it is not prepared.
func (c *claimCluster) has(ctx context.Context, claim string) (cpuset.Set, error) {
	claims, err := c.prepared(ctx)
	if err != nil {
		return cpuset.Set{}, err
	}
	var names []string
	for _, of := range claims.Claims {
		if of.Name == claim {
			return of.CPUs, nil
		}
		names = append(names, of.Name)
	}
	return cpuset.Set{}, fmt.Errorf("claim %s is not prepared; prepared: %s", claim, strings.Join(names, ", "))
}
