//go:build guest

package daemon_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/internal/inspect"
)

// TestNRIOfAnotherRuntime starts a second containerd with the same NRI socket, as Docker's is. The daemon reports that, and places containers
// when the runtime of the pods reports them. When that one has the socket again, the daemon connects.
func TestNRIOfAnotherRuntime(t *testing.T) {
	const (
		socket, unit  = "/run/nri/nri.sock", "containerd-other"
		config, state = "/run/containerd-other.toml", "/run/containerd-other"
		root          = "/var/lib/containerd-other"
	)
	n := newNode(t)
	if n.image.Name != "containerd" || !n.image.NRI {
		t.Skip("the image has no containerd with NRI")
	}
	t.Cleanup(func() { // after the pods are removed
		_, _ = n.try("systemctl", "stop", unit) // an error if it has not run, or has been stopped
		n.run("systemctl", "restart", n.image.Unit)
		if err := errors.Join(os.RemoveAll(root), os.RemoveAll(state), os.RemoveAll(config)); err != nil {
			t.Error(err)
		}
	})
	r := n.withoutKubelet()
	before := r.mustStart(500, "default", nil) // without a pod, the daemon cannot distinguish the runtimes

	n.write(config, fmt.Sprintf("version = 3\nroot = '%s'\nstate = '%s'\n[grpc]\naddress = '%s/containerd.sock'\n", root, state, state))
	old, err := os.Stat(socket)
	if err != nil {
		t.Fatal(err)
	}
	n.run("systemd-run", "--unit="+unit, "--collect", "containerd", "--config", config)
	n.eventually("the NRI socket of the second containerd", func() error {
		now, err := os.Stat(socket)
		if err == nil && os.SameFile(old, now) {
			err = errors.New("it is still the socket of the first one")
		}
		return err
	})

	n.startDaemon(hourly)
	reported := func() bool {
		return slices.ContainsFunc(n.status().Problems, func(p inspect.Problem) bool { return p.Code == "NRIOtherRuntime" })
	}
	n.eventually("the problem", func() error {
		if !reported() {
			return fmt.Errorf("problems %+v", n.status().Problems)
		}
		return nil
	})
	owner := r.mustStart(2000, "default", nil)
	r.onCPUs(owner, 2)
	n.eventually("the earlier pod", func() error { return r.runsOn(before, "2-3", 0) })

	n.run("systemctl", "stop", unit)
	n.run("systemctl", "restart", n.image.Unit)
	n.nriConnected()
	n.eventually("the end of the problem", func() error {
		if reported() {
			return fmt.Errorf("problems %+v", n.status().Problems)
		}
		return nil
	})
	n.quiet()
	n.invariants()
}
