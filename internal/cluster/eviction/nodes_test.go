package eviction_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/cluster/eviction"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// TestWordsOfTheDaemon checks that this package reads the values that the daemon writes.
func TestWordsOfTheDaemon(t *testing.T) {
	if eviction.Condition != nodestatus.PressureType || eviction.Allowed != nodestatus.EvictValue {
		t.Errorf("condition %s and value %s are read, and %s and %s written", eviction.Condition, eviction.Allowed, nodestatus.PressureType, nodestatus.EvictValue)
	}
}

func TestPressed(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		why    string // empty: pressed
	}{
		"depleted":          {func(*corev1.Node) {}, ""},
		"no taint":          {func(n *corev1.Node) { n.Spec.Taints = nil }, "taint"},
		"a taint alone":     {func(n *corev1.Node) { n.Spec.Taints[0].Value = "" }, "taint"},
		"another's taint":   {func(n *corev1.Node) { n.Spec.Taints[0].Key = "x" }, "taint"},
		"another effect":    {func(n *corev1.Node) { n.Spec.Taints[0].Effect = "NoExecute" }, "taint"},
		"no conditions":     {func(n *corev1.Node) { n.Status.Conditions = nil }, "not depleted"},
		"not depleted":      {func(n *corev1.Node) { n.Status.Conditions[1].Status = "False" }, "not depleted"},
		"14 minutes old":    {func(n *corev1.Node) { n.Status.Conditions[1].LastHeartbeatTime.Time = now.Add(-14 * time.Minute) }, ""},
		"16 minutes old":    {func(n *corev1.Node) { n.Status.Conditions[1].LastHeartbeatTime.Time = now.Add(-16 * time.Minute) }, "updated at 2023-11-14T21:57:20Z"},
		"from the future":   {func(n *corev1.Node) { n.Status.Conditions[1].LastHeartbeatTime.Time = now.Add(16 * time.Minute) }, "updated at"},
		"kubelet not ready": {func(n *corev1.Node) { n.Status.Conditions[0].Status = "Unknown" }, "kubelet"},
	} {
		n := &corev1.Node{
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: workload.DepletedTaint, Value: "evict", Effect: "NoSchedule"}}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: "True"},
				{Type: "NodeCPUPressure", Status: "True", LastHeartbeatTime: metav1.NewTime(now)},
			}},
		}
		c.change(n)
		pressed, why := eviction.Pressed(n, now)
		if pressed != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: pressed %t, %q; want %q", name, pressed, why, c.why)
		}
	}
}

func TestTooMany(t *testing.T) {
	for _, c := range []struct {
		depleted, all, percent int
		want                   bool
	}{
		{1, 1, 10, false}, {1, 3, 10, false}, {2, 3, 10, true}, {2, 20, 10, false}, {3, 20, 10, true}, {3, 29, 10, true}, {3, 30, 10, false}, {5, 5, 100, false},
	} {
		if got := eviction.TooMany(c.depleted, c.all, c.percent); got != c.want {
			t.Errorf("%d of %d nodes with %d %%: too many is %t", c.depleted, c.all, c.percent, got)
		}
	}
}
