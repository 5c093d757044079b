package config

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Node (node) says what the cluster sees of this node.
type Node struct {
	// Enabled (enabled) says whether an API server is talked to. Default: auto.
	Enabled NodeEnabled
	// Name (name) is that of the Node. Default: what the environment variable
	// NODE_NAME says.
	Name string
	// Kubeconfig (kubeconfig) is the file that says how, and as whom, the API server is
	// reached. Default: empty, which takes the service account of the daemon's pod.
	Kubeconfig string
	// Resources (resources) says whether extended resources are advertised, by which the
	// scheduler counts pools. Default: true.
	Resources bool
	// Condition (condition) says whether the Node has a condition that tells how the
	// daemon fares. Default: true.
	Condition bool
	// Heartbeat (heartbeat) is how often that condition is written while it does not
	// change: 1m..1h, or 0 for never. Default: 0.
	Heartbeat time.Duration
	// Topology (topology) says whether there is a NodeResourceTopology object of the node,
	// for schedulers that look into nodes. Default: false.
	Topology bool
	// Events (events) says whether pods get events of what is not as they ask. Default:
	// true.
	Events bool
	// StartupTaint (startupTaint) is the key of the taint that is removed once the first
	// pass is over; empty, "none" in the file, removes none. Default:
	// cpupoold.io/starting.
	StartupTaint string
}

// NodeEnabled says whether the daemon talks to an API server.
type NodeEnabled string

// With NodeAuto it does where it can: with a kubeconfig, or with a service account and
// the name of the node, and where there is a runtime.
const (
	NodeAuto NodeEnabled = "auto"
	NodeOn   NodeEnabled = "true"
	NodeOff  NodeEnabled = "false"
)

func (d *decoder) node(key string, n *yaml.Node, c *Config) {
	to := &c.Node
	d.mapping(key, n, []field{
		{"enabled", d.scalar(func(s string) error { return setOneOf(&to.Enabled, s, NodeAuto, NodeOn, NodeOff) })},
		{"name", d.scalar(func(s string) error { return setNodeName(&to.Name, s) })},
		{"kubeconfig", d.scalar(func(s string) error {
			if !filepath.IsAbs(s) || filepath.Clean(s) != s {
				return errors.New("is not an absolute, clean path of a file; write one like /etc/cpupoold/kubeconfig")
			}
			to.Kubeconfig = s
			return nil
		})},
		{"resources", d.scalar(func(s string) error { return setBool(&to.Resources, s) })},
		{"condition", d.scalar(func(s string) error { return setBool(&to.Condition, s) })},
		// More often is a load for the cluster, and shows no more: a dead daemon's pod is not ready within
		// seconds.
		{"heartbeat", d.duration(&to.Heartbeat, time.Minute, time.Hour, "0", "5m")},
		{"topology", d.scalar(func(s string) error { return setBool(&to.Topology, s) })},
		{"events", d.scalar(func(s string) error { return setBool(&to.Events, s) })},
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

// setTaint accepts a key with a domain: one without could be anybody's, and those of
// Kubernetes keep pods off nodes that are not fit for them.
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
		return errors.New("is a taint of Kubernetes itself, which is not to be removed; write one like cpupoold.io/starting, or none")
	}
	*key = s
	return nil
}
