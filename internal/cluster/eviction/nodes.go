package eviction

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// What a daemon shows of a depleted node, besides the taint: see package node, which this
// one must not import.
const (
	// Condition is the type of the condition.
	Condition corev1.NodeConditionType = "NodeCPUPressure"
	// Allowed is the value of the taint where pods may be evicted.
	Allowed = "evict"
)

// stale is how old the condition may be. Its daemon writes it every 5 minutes.
const stale = 15 * time.Minute

// Tainted says that a node shows the taint of depletion, whether or not pods may be
// evicted for it.
func Tainted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == workload.DepletedTaint })
}

// Pressed says that pods of a node may be evicted at the moment, or why not.
func Pressed(n *corev1.Node, now time.Time) (pressed bool, why string) {
	allows := func(t corev1.Taint) bool {
		return t.Key == workload.DepletedTaint && t.Value == Allowed && t.Effect == corev1.TaintEffectNoSchedule
	}
	if !slices.ContainsFunc(n.Spec.Taints, allows) {
		return false, "its taint does not allow it"
	}
	var depleted, ready bool
	var heartbeat time.Time
	for _, c := range n.Status.Conditions {
		switch c.Type {
		case Condition:
			depleted, heartbeat = c.Status == corev1.ConditionTrue, c.LastHeartbeatTime.Time
		case corev1.NodeReady:
			ready = c.Status == corev1.ConditionTrue
		}
	}
	switch {
	case !depleted:
		return false, "it is not depleted"
	case now.Sub(heartbeat).Abs() > stale:
		return false, "what it says was said at " + heartbeat.UTC().Format(time.RFC3339)
	case !ready:
		return false, "its kubelet is not ready, and would end no pod"
	}
	return true, ""
}

// TooMany says that so many nodes of all are depleted at once that none is believed: more
// than this part, in percent. One may always be.
func TooMany(depleted, all, percent int) bool {
	return depleted > max(all*percent/100, 1)
}
