//go:build guest

package placement_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// TestCarve checks that the shared pool releases CPUs to each owner down to its floor, and gets them back.
func TestCarve(t *testing.T) {
	n := newNode(t)
	n.carves = true
	everything := n.Online.Difference(n.management)
	n.StartDaemon(n.carved(2, ""))
	n.apply(pod("neighbour", manifest.Container{Name: "app"}), pod("other", manifest.Container{Name: "app", CPU: "300m", Memory: "20Mi"}))
	sets := n.meets(expectations{"neighbour/app": {}, "other/app": {}})
	if got := sets["neighbour/app"]; !got.Equal(everything) {
		t.Errorf("shared pool without owners = %s; want %s", got, everything)
	}

	// All but the floor, in two.
	half := (everything.Len() - 2) / 2
	n.apply(pod("a", whole("app", half)))
	first := n.meets(expectations{"neighbour/app": {}, "other/app": {}, "a/app": {cpus: half}})
	n.apply(pod("b", whole("app", everything.Len()-2-half)))
	full := expectations{"neighbour/app": {}, "other/app": {}, "a/app": {cpus: half}, "b/app": {cpus: everything.Len() - 2 - half}}
	second := n.meets(full)
	stays(t, first, second, "a/app")
	if got := second["neighbour/app"].Len(); got != 2 {
		t.Errorf("the shared pool has %d CPUs; want the floor, 2", got)
	}

	n.apply(pod("late", whole("app", 1)))
	full["late/app"] = rule{code: "Floor"}
	third := n.meets(full)
	stays(t, second, third, "a/app", "b/app")

	n.Run("systemctl", "restart", "cpupoold")
	stays(t, third, n.meets(full), "a/app", "b/app", "neighbour/app", "late/app")

	// Released CPUs go to the waiting container, and the rest to the shared pool.
	n.Withdraw("a")
	fourth := n.meets(expectations{"neighbour/app": {}, "other/app": {}, "late/app": {cpus: 1}, "b/app": full["b/app"]})
	stays(t, third, fourth, "b/app")
	n.Withdraw("b", "late")
	if got := n.meets(expectations{"neighbour/app": {}, "other/app": {}})["neighbour/app"]; !got.Equal(everything) {
		t.Errorf("the shared pool has %s after all others have gone; want %s", got, everything)
	}
}

// stays checks that containers have the same CPUs as before.
func stays(t *testing.T, before, after map[name]cpuset.Set, names ...name) {
	t.Helper()
	for _, who := range names {
		if !after[who].Equal(before[who]) {
			t.Errorf("CPUs of %s changed from %s to %s; want no change", who, before[who], after[who])
		}
	}
}
