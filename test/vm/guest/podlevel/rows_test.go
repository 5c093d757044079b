//go:build guest

package podlevel_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// row is a row of the decision table that the kubelet can make from a static pod.
type row struct {
	name string
	pod  manifest.Pod
	// during are the roles while the init container "i" runs, by container; none without it.
	during map[string]string
	// roles are the roles in the end. Without NRI, the daemon cannot refuse a container: it is in the shared pool instead of "refused".
	roles map[string]string
}

func rows() []row {
	limitsOnly := pod("p21", 4, bare("a"))
	limitsOnly.More = map[string]any{"resources": map[string]any{"limits": map[string]string{"cpu": "4", "memory": "120Mi"}}}
	withInit := pod("p14", 4, whole("a", 2), bare("b"))
	withInit.Init = []manifest.Container{bare("i")}
	sidecar := whole("s", 1)
	sidecar.More = map[string]any{"restartPolicy": "Always"}
	withSidecar := pod("p15", 4, bare("a"))
	withSidecar.Init = []manifest.Container{sidecar, bare("i")}
	return []row{
		{name: "01 no container has resources", pod: pod("p01", 4, bare("a"), bare("b"), bare("c")),
			roles: map[string]string{"a": "pool 4", "b": "pool 4", "c": "pool 4"}},
		{name: "02 one container has whole CPUs", pod: pod("p02", 4, whole("a", 2), bare("b"), bare("c")),
			roles: map[string]string{"a": "own 2", "b": "pool 2", "c": "pool 2"}},
		{name: "04 a container that shares came first", pod: pod("p04", 5, bare("c"), whole("a", 3), whole("b", 2)),
			roles: map[string]string{"c": "pool 2", "a": "own 3", "b": "refused"}},
		{name: "14 an init container without resources", pod: withInit,
			during: map[string]string{"i": "own 4"}, roles: map[string]string{"a": "own 2", "b": "pool 2"}},
		{name: "15 a sidecar with a whole CPU", pod: withSidecar,
			during: map[string]string{"s": "own 1", "i": "pool 3"}, roles: map[string]string{"s": "own 1", "a": "pool 3"}},
		{name: "21 a static pod with limits only", pod: limitsOnly, roles: map[string]string{"a": "shared"}},
	}
}

// TestRows has the real kubelet run the pods of the decision table.
func TestRows(t *testing.T) {
	n := newNode(t)
	for _, r := range rows() {
		t.Run(r.name, func(t *testing.T) { n.in(t).runs(r) })
	}
}

// runs starts the pod of a row and compares the CPUs of its containers.
func (n *node) runs(r row) {
	n.Helper()
	n.Apply(r.pod)
	n.Cleanup(func() { n.Withdraw(r.pod.Name) })
	if r.during != nil {
		n.settles("while the init container runs", of(r.pod.Name, r.during))
		n.end(r.pod.Name, "i")
	}
	want := make(roles)
	for name, role := range of(r.pod.Name, r.roles) {
		switch {
		case role != "refused":
			want[name] = role
		case n.Runtime.NRI:
			n.refused(r.pod.Name, "the containers that share the rest need at least 1")
		default:
			want[name] = "shared"
		}
	}
	n.settles("in the end", want)
}

// refused waits until the kubelet reports that the daemon has refused a container of a pod, with these words.
func (n *node) refused(pod, why string) {
	n.Helper()
	n.Eventually("refusal", func() error {
		for line := range strings.Lines(n.Run("journalctl", "--no-pager", "-o", "cat", "-u", "kubelet")) {
			if strings.Contains(line, n.FullName(pod)) && strings.Contains(line, why) {
				return nil
			}
		}
		return errors.New("the kubelet's log does not contain it")
	})
}

// TestRestart checks row 26: while a container with whole CPUs has ended, the pool of the pod has its CPUs. It gets the same CPUs again. The kubelet
// is stopped, so that it cannot start the container.
func TestRestart(t *testing.T) {
	n := newNode(t)
	n.Apply(pod("p26", 4, whole("a", 2), bare("b")))
	both := of("p26", map[string]string{"a": "own 2", "b": "pool 2"})
	before := n.settles("before", both)
	n.Run("systemctl", "stop", "kubelet")
	n.end("p26", "a")
	n.settles("while it has ended", of("p26", map[string]string{"b": "pool 4"}))
	n.Run("systemctl", "start", "kubelet")
	n.keeps("after its restart", before, n.settles("after its restart", both))
}
