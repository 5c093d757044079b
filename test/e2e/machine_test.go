//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// nodeName is the name of the cluster's first node.
const nodeName = "node"

// A machine is a guest that is a node of the cluster, or may become one.
type machine struct {
	*vm.VM

	name       string // of the node
	address    string // of the node
	pods       string // prefix of its pods' addresses
	kubeconfig string // of its kubelet, among the control plane's files
}

// boot starts a machine of each topology.
func boot(t *testing.T, topologies []string) []*machine {
	t.Helper()
	all := []*machine{
		{name: nodeName, address: "10.0.2.15", pods: "10.85.", kubeconfig: "kubelet.conf"},
		{name: "worker", address: "10.0.2.16", pods: "10.86.", kubeconfig: "worker.conf"},
	}[:len(topologies)]
	for i, m := range all {
		m.VM = vm.Start(t, vm.Config{Node: true, Topology: topologies[i]})
	}
	return all
}

// join has the kubelet look for a control plane. The directories become the machine's /etc.
func (m *machine) join(t *testing.T, plane *controlPlane, etc []string) {
	t.Helper()
	for _, dir := range etc {
		m.bring(t, dir, "/etc")
	}
	m.bring(t, filepath.Join(plane.dir, m.kubeconfig), "/etc/kubernetes/kubeconfig")
	m.bring(t, filepath.Join(plane.dir, "pki", "ca.crt"), "/etc/kubernetes/ca.crt")
	m.addAddresses(t)
	m.run(t, "sh", "-euc", `
		printf 'NAME=%s\nADDRESS=%s\n' "$0" "$1" >/etc/kubernetes/node.env
		sed -i "s/10\.85\./$2/" /etc/cni/net.d/10-node.conflist
		systemctl daemon-reload
		systemctl restart kubelet`, m.name, m.address, m.pods)
}

// addAddresses adds the addresses of the node and of the service "kubernetes", which a boot removes.
func (m *machine) addAddresses(t *testing.T) {
	t.Helper()
	m.run(t, "sh", "-euc", `
		ip address show dev eth0 | grep -q "inet $0/" || ip address add "$0/24" dev eth0
		ip address add 10.96.0.1/32 dev lo`, m.address)
}

// gate sets feature gates of the kubelet, such as NAME=true, for its next start.
func (m *machine) gate(t *testing.T, gates string) {
	t.Helper()
	m.run(t, "sh", "-euc", `
		mkdir -p /etc/kubernetes/kubelet.conf.d
		printf 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfeatureGates: {%s}\n' "$0" >/etc/kubernetes/kubelet.conf.d/gates.conf`,
		strings.ReplaceAll(gates, "=", ": "))
}

// reboot cuts the power of the machine, and returns when its kubelet is healthy again.
func (m *machine) reboot(t *testing.T, plane *controlPlane) {
	t.Helper()
	m.run(t, "sync")
	if err := m.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	listenInGuest(plane.test, m.VM, "127.0.0.1:6443", plane.address)
	m.addAddresses(t)
}

// bring copies a file or a directory to the machine.
func (m *machine) bring(t *testing.T, from, to string) {
	t.Helper()
	if err := m.CopyTo(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
}

// run runs a command on the machine, and returns its output.
func (m *machine) run(t *testing.T, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	out, err := m.Run(ctx, command...)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// hostAddress is the address of this machine in endpoints of the cluster, which may not be loopback addresses.
const hostAddress = "10.87.0.1"

// dial connects to a pod, to a node, or to a program of this machine.
func dial(ctx context.Context, machines []*machine, address string) (net.Conn, error) {
	if port, here := strings.CutPrefix(address, hostAddress+":"); here {
		return new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+port)
	}
	for _, m := range machines {
		if strings.HasPrefix(address, m.pods) || strings.HasPrefix(address, m.address+":") {
			return m.Dial(ctx, "tcp", address)
		}
	}
	return nil, fmt.Errorf("dial %s: no machine has pods or a node there", address)
}
