//go:build guest

package podlevel_test

import (
	"flag"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// earlier is the daemon of an earlier revision. It gave each container the CPUs of the whole pod.
var earlier = flag.String("earlier", "", "daemon that TestUpgrade starts with")

const (
	program = "/usr/local/bin/cpupoold"
	later   = "/usr/local/lib/cpupoold-later"
)

// TestUpgrade upgrades a node on which each of the three containers of a pod of 2 CPUs has 2. The CPUs of the oldest container become the pool of the
// pod. The others are free for another owner.
func TestUpgrade(t *testing.T) {
	if *earlier == "" {
		t.Skip("no earlier daemon")
	}
	n := &node{Node: guestnode.New(t)}
	n.Run("cp", program, later)
	t.Cleanup(func() {
		n.StopDaemon()
		n.Run("cp", "--remove-destination", later, program)
	})
	n.Run("cp", "--remove-destination", *earlier, program)
	n.StartDaemon(config)
	n.connected()
	n.Apply(pod("p", 2, bare("a"), bare("b"), bare("c")))
	before := n.settles("with the earlier daemon", of("p", map[string]string{"a": "own 2", "b": "own 2", "c": "own 2"}))

	n.StopDaemon()
	n.Run("cp", "--remove-destination", later, program)
	n.StartDaemon(config)
	n.connected()
	pool := map[string]string{"a": "pool 2", "b": "pool 2", "c": "pool 2"}
	after := n.settles("after the upgrade", of("p", pool))
	if !after["p/a"].Equal(before["p/a"]) {
		t.Errorf("the pool of the pod has CPUs %s; want the CPUs of the oldest container, %s", after["p/a"], before["p/a"])
	}
	n.Apply(manifest.Pod{Name: "other", Namespace: "default", Containers: []manifest.Container{whole("app", 4)}})
	want := of("p", pool)
	want["other/app"] = "own 4"
	n.keeps("the next owner", after, n.settles("the next owner", want))
}
