package eviction

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Values that a daemon writes to the Node of a depleted node, in addition to the taint.
// Package nodestatus has the same values; this package must not import it.
const (
	// Condition is the type of the node condition.
	Condition corev1.NodeConditionType = "NodeCPUPressure"
	// Allowed is the value of the taint where pods may be evicted.
	Allowed = "evict"
)

// stale is the maximum age of the condition. The daemon writes it every 5 minutes.
const stale = 15 * time.Minute

// Tainted reports whether a node has the taint of depletion, with any value.
func Tainted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == workload.DepletedTaint })
}

// Pressed reports whether pods of a node may be evicted now, and the reason if not.
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
		return false, "its condition was last updated at " + heartbeat.UTC().Format(time.RFC3339)
	case !ready:
		return false, "its kubelet is not ready, and would end no pod"
	}
	return true, ""
}

// TooMany reports whether so many nodes are depleted at once that no pod may be evicted:
// more than percent of all nodes, and more than one.
func TooMany(depleted, all, percent int) bool {
	return depleted > max(all*percent/100, 1)
}
