// Package scheduler runs the framework of the real scheduler on nodes that do not exist yet, as
// cluster-autoscaler and Karpenter do before they create a node. The tests build the nodes
// from the files of `kubectl cpupool render`, and pass the pods through the code of the webhook.
//
// It is a module of its own because it needs most of k8s.io/kubernetes.
package scheduler
