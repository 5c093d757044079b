//go:build guest

package statickubelet_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
)

const (
	kubeletConfig = "/var/lib/kubelet/config.yaml"
	stateName     = "/var/lib/kubelet/cpu_manager_state"

	config = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0
  namespaces: [kube-system]
staticPods: [kube-system]
guaranteed:
  exclusive: kubelet
resyncPeriod: 5m
logFormat: json
`
)

// node is a guest whose kubelet is static for the time of the test.
type node struct {
	*guestnode.Node
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{guestnode.New(t)}
	before, err := os.ReadFile(kubeletConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.restartKubelet(string(before)) })
	static := strings.Replace(string(before), "cpuManagerPolicy: none", `cpuManagerPolicy: static
cpuManagerReconcilePeriod: 1s
cpuManagerPolicyOptions:
  strict-cpu-reservation: "true"
reservedSystemCPUs: "0"`, 1)
	if static == string(before) {
		t.Fatalf("%s has no cpuManagerPolicy: none", kubeletConfig)
	}
	n.restartKubelet(static)
	n.Eventually("state of a static kubelet", func() error {
		s, err := n.state()
		if err == nil && s.Policy != "static" {
			err = errors.New("its policy is " + s.Policy)
		}
		return err
	})
	return n
}

// restartKubelet restarts the kubelet with another configuration, as an administrator changes the policy.
func (n *node) restartKubelet(config string) {
	n.Helper()
	n.Run("systemctl", "stop", "kubelet")
	n.Write(kubeletConfig, config)
	if err := os.Remove(stateName); err != nil && !errors.Is(err, os.ErrNotExist) {
		n.Fatal(err)
	}
	n.Run("systemctl", "start", "kubelet")
}

// state returns the kubelet's assignments of CPUs.
func (n *node) state() (podresources.CPUState, error) {
	b, err := os.ReadFile(stateName)
	if err != nil {
		return podresources.CPUState{}, err
	}
	return podresources.ParseCPUState(b)
}

// exact checks that every container runs on its CPUs: management pods on the management CPUs, all others exactly on the CPUs of the
// kubelet's state. pods is the expected number of pods, and owners the number of them with exclusive CPUs.
func (n *node) exact(pods, owners int) error {
	state, err := n.state()
	if err != nil {
		return err
	}
	all, err := n.Containers()
	if err != nil {
		return err
	}
	if len(all) != pods || len(state.Holdings) != owners {
		return fmt.Errorf("%d containers run, and %d have exclusive CPUs; want %d and %d", len(all), len(state.Holdings), pods, owners)
	}
	var occupants []invariants.Occupant
	for _, c := range all {
		want, alone := state.Default, false
		if c.Pod.Namespace == "kube-system" {
			want = cpuset.Of(0)
		}
		for _, h := range state.Holdings {
			if h.PodUID == c.Pod.UID && h.Container == c.Name {
				want, alone = h.CPUs, true
			}
		}
		name := c.Pod.Name + "/" + c.Name
		if !c.Effective.Equal(want) {
			return fmt.Errorf("%s is on %s; want %s", name, c.Effective, want)
		}
		occupants = append(occupants, invariants.Occupant{Name: name, CPUs: c.Effective, Exclusive: alone})
	}
	return errors.Join(invariants.CheckOccupants(occupants)...)
}

// settled waits for exact.
func (n *node) settled(what string, pods, owners int) {
	n.Helper()
	n.Eventually(what, func() error { return n.exact(pods, owners) })
}

// sentry looks all the time at where the processes of a container may run, and remembers when that was elsewhere.
type sentry struct {
	stop, done chan struct{}
	looks      int
	strayed    []string
}

// watch begins to look at a management container's cgroup.
func (n *node) watch(p cgroup.Path, cpus string) *sentry {
	s := &sentry{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		tick := time.NewTicker(10 * time.Millisecond) // all the time would leave the kubelet less of an emulated machine
		defer tick.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-tick.C:
			}
			if got := n.stray(p, cpus); got != "" {
				s.strayed = append(s.strayed, got)
			}
			s.looks++
		}
	}()
	return s
}

// stray returns the CPUs of a process of a cgroup, if they differ from cpus.
func (n *node) stray(p cgroup.Path, cpus string) string {
	procs, err := n.FS.ReadFile(p, "cgroup.procs")
	if err != nil {
		return err.Error()
	}
	for field := range strings.FieldsSeq(string(procs)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return err.Error()
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it has ended since the listing
		}
		for line := range strings.Lines(string(status)) {
			if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok && strings.TrimSpace(list) != cpus {
				return fmt.Sprintf("process %d may run on %s", pid, strings.TrimSpace(list))
			}
		}
	}
	return ""
}

// end stops looking and fails the test if the container was elsewhere.
func (s *sentry) end(t *testing.T, during string) {
	t.Helper()
	close(s.stop)
	<-s.done
	if len(s.strayed) > 0 || s.looks == 0 {
		t.Errorf("during %s, in %d checks, the management pod left its CPUs %d times; first: %v", during, s.looks, len(s.strayed), s.strayed[:min(len(s.strayed), 1)])
	}
	t.Logf("%s: %d looks", during, s.looks)
}
