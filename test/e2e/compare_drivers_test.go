//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/cpupoold/cpupoold/internal/dra"
)

// comparisons is the namespace of the pods that TestCompareDRA measures.
const comparisons = "compare"

// A claimDriver is a driver of CPUs for ResourceClaims, with its place in claims and pods.
type claimDriver struct {
	name     string // column of the table
	class    string // DeviceClass, with the name of the driver
	capacity resourcev1.QualifiedName
	node1    string // CEL expression for the device of NUMA node 1
	programs string // names of processes on the node

	cpu     func(cpus int) string // request and limit of a container with a claim for this many CPUs
	install func(*testing.T, *cluster)
	restart string // command of kubectl that restarts the pods of the driver
	remove  func(*testing.T, *cluster)
}

// dradrivercpu returns dra-driver-cpu with the manifests and the image in a directory. Its options are the defaults with reserved CPUs.
func dradrivercpu(tree string) claimDriver {
	const rollout = "kubectl --namespace kube-system rollout status daemonset dracpu"
	return claimDriver{
		name: "dra-driver-cpu", class: "dra.cpu", capacity: "dra.cpu/cpu", node1: `device.attributes["dra.cpu"].numaNodeID == 1`, programs: "dracpu",
		cpu: func(cpus int) string { return fmt.Sprintf("%d|%[1]d", cpus) }, // its guide for workloads repeats the amount of the claim
		install: func(t *testing.T, c *cluster) {
			c.reserveCPUs(t, "0-1")
			c.machines[0].bring(t, filepath.Join(tree, "image.tar"), "/root/dradrivercpu.tar")
			c.run(t, "ctr", "--namespace", "k8s.io", "images", "import", "/root/dradrivercpu.tar")
			dir := filepath.Join(c.plane.dir, "dradrivercpu")
			for _, from := range []string{tree, "testdata/dradrivercpu"} {
				if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
					t.Fatal(err)
				}
			}
			c.kubectl(t, "kubectl apply -k dradrivercpu")
			c.kubectl(t, rollout)
			c.offers(t, "dra.cpu", true)
		},
		restart: "kubectl --namespace kube-system rollout restart daemonset dracpu && " + rollout,
		remove: func(t *testing.T, c *cluster) {
			c.kubectl(t, "kubectl delete -k dradrivercpu")
			c.offers(t, "dra.cpu", false)
		},
	}
}

// cpupoolDRA returns cpupoold with cpupool-dra. Claims have NUMA node 1, and the shared pool uses its CPUs until a claim gets them.
func cpupoolDRA(guide manual) claimDriver {
	const configuration = `
    partitions:
    - type: management
      cpus: 0-1
      namespaces: [kube-system, cpupoold]
    shared:
      cpus: rest
    guaranteed:
      cpus: 6-7
      options: {full-pcpus-only: "true"}
      claims: {cpus: 8-15, idle: shared}
`
	return claimDriver{
		name: "cpupoold", class: dra.Class, capacity: dra.Capacity, node1: `device.attributes["resource.kubernetes.io"].numaNode == 1`, programs: "cpupoold cpupool-dra",
		cpu: func(int) string { return "1m|500m" }, // pods of the guide have no limit, and so no quota
		install: func(t *testing.T, c *cluster) {
			c.reserveCPUs(t, "0-1,8-15")
			c.bring(t)
			c.configure(t, configuration)
			c.installDaemon(t, nil)
			guide.follow(t, c, "kubectl apply -k deploy/dra", "kubectl -n cpupoold rollout status daemonset cpupool-dra")
			c.offers(t, dra.Driver, true)
		},
		restart: "kubectl --namespace cpupoold rollout restart daemonset cpupoold cpupool-dra && kubectl --namespace cpupoold rollout status daemonset cpupoold",
		remove: func(t *testing.T, c *cluster) {
			guide.follow(t, c, "kubectl delete -k deploy/dra --ignore-not-found")
			c.offers(t, dra.Driver, false)
		},
	}
}

// reserveCPUs restarts the kubelet with reserved CPUs.
func (c *cluster) reserveCPUs(t *testing.T, cpus string) {
	t.Helper()
	c.setKubelet(t, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nreservedSystemCPUs: \""+cpus+"\"\n")
	c.run(t, "systemctl", "restart", "kubelet")
}

// offers waits until a driver has devices, or none.
func (c *cluster) offers(t *testing.T, driver string, some bool) {
	t.Helper()
	c.publishes(t, driver, func(devices []resourcev1.Device) error {
		if len(devices) > 0 != some {
			return fmt.Errorf("it has %d devices", len(devices))
		}
		return nil
	})
}
