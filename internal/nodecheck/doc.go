// Package nodecheck judges facts about a node that are visible on the node and in the API: the
// kernel, the runtime and the kubelet's policies. `cpupoold check` and `kubectl cpupool check`
// use the same sentences. Pure.
package nodecheck
