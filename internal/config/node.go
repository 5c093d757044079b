package config

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Node (node) selects the state of this node that the cluster sees.
type Node struct {
	// Enabled (enabled) selects whether the daemon connects to an API server. Default: auto.
	Enabled NodeEnabled
	// Name (name) is the name of the Node. Default: the environment variable NODE_NAME.
	Name string
	// Kubeconfig (kubeconfig) is the file with the address of the API server and the daemon's
	// credentials. Default: empty, which selects the service account of the daemon's pod.
	Kubeconfig string
	// Resources (resources) advertises extended resources, by which the scheduler counts pools.
	// Default: true.
	Resources bool
	// Condition (condition) gives the Node a condition with the state of the daemon. Default:
	// true.
	Condition bool
	// Heartbeat (heartbeat) is the interval at which the daemon writes an unchanged condition:
	// 1m..1h, or 0 for never. Default: 0.
	Heartbeat time.Duration
	// Topology (topology) maintains a NodeResourceTopology object of the node, for topology-aware
	// schedulers. Default: false.
	Topology bool
	// Events (events) writes events about unfulfilled requests to pods. Default: true.
	Events bool
	// StartupTaint (startupTaint) is the key of the taint that the daemon removes after the first
	// pass. Empty ("none" in the file) means no taint. Default: cpupoold.io/starting.
	StartupTaint string
}

// NodeEnabled selects whether the daemon connects to an API server.
type NodeEnabled string

// With NodeAuto the daemon connects if the node has a runtime, and the daemon has a kubeconfig, or
// a service account and the name of the node.
const (
	NodeAuto NodeEnabled = "auto"
	NodeOn   NodeEnabled = "true"
	NodeOff  NodeEnabled = "false"
)

func (d *decoder) node(key string, n *yaml.Node, c *Config) {
	to := &c.Node
	d.mapping(key, n, []field{
		{"enabled", oneOf(d, &to.Enabled, NodeAuto, NodeOn, NodeOff)},
		{"name", d.scalar(func(s string) error { return setNodeName(&to.Name, s) })},
		{"kubeconfig", d.scalar(func(s string) error {
			if !filepath.IsAbs(s) || filepath.Clean(s) != s {
				return errors.New("is not an absolute, clean path of a file; write one like /etc/cpupoold/kubeconfig")
			}
			to.Kubeconfig = s
			return nil
		})},
		{"resources", boolean(d, &to.Resources)},
		{"condition", boolean(d, &to.Condition)},
		// A shorter interval is a load for the cluster without a benefit: the pod of a dead daemon is not
		// ready within seconds.
		{"heartbeat", d.duration(&to.Heartbeat, time.Minute, time.Hour, "0", "5m")},
		{"topology", boolean(d, &to.Topology)},
		{"events", boolean(d, &to.Events)},
		{"startupTaint", d.scalar(func(s string) error { return setTaint(&to.StartupTaint, s) })},
	})
}

// setNodeName accepts a DNS subdomain (RFC 1123), as the API does.
func setNodeName(name *string, s string) error {
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`).MatchString(s) {
		return errors.New("is not the name of a Node; write it as kubectl get nodes does")
	}
	*name = s
	return nil
}

// setTaint accepts a key with a domain. A key without a domain could belong to another program,
// and taints of Kubernetes protect pods from unfit nodes.
func setTaint(key *string, s string) error {
	if s == "none" {
		*key = ""
		return nil
	}
	domain, _, _ := strings.Cut(s, "/")
	switch {
	case !regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`).MatchString(s):
		return errors.New("is not the key of a taint with a domain; write one like cpupoold.io/starting, or none")
	case domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io"):
		return errors.New("is a taint of Kubernetes, which cpupoold must not remove; write one like cpupoold.io/starting, or none")
	}
	*key = s
	return nil
}

// AdvertisesNone returns the key and the value by which the daemon advertises no extended resources.
// Both are empty if it advertises them.
func (c *Config) AdvertisesNone() (key, value string) {
	switch {
	case c.Node.Enabled == NodeOff:
		return "node.enabled", string(NodeOff)
	case !c.Node.Resources:
		return "node.resources", "false"
	case c.Node.Enabled == NodeAuto && !c.HasRuntime():
		return "containerRuntimeEndpoint", NoRuntime
	case c.Mode == ModeObserve:
		return "mode", string(ModeObserve)
	}
	return "", ""
}
