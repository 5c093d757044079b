package migrate

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// kubeletArguments makes the keys of a KubeletConfiguration of the kubelet's arguments in a
// configuration of k3s or RKE2, as far as these are about CPUs.
func (f *facts) kubeletArguments(file string, list *yaml.Node) *yaml.Node {
	keys := map[string]string{
		"cpu-manager-policy": "cpuManagerPolicy", "reserved-cpus": "reservedSystemCPUs", "topology-manager-policy": "topologyManagerPolicy",
		"memory-manager-policy": "memoryManagerPolicy",
	}
	maps := map[string]string{
		"cpu-manager-policy-options": "cpuManagerPolicyOptions", "topology-manager-policy-options": "topologyManagerPolicyOptions",
		"kube-reserved": "kubeReserved", "system-reserved": "systemReserved",
	}
	all := []*yaml.Node{list}
	if list.Kind == yaml.SequenceNode {
		all = items(list)
	}
	made := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, argument := range all {
		name, value, _ := strings.Cut(strings.TrimLeft(target(argument).Value, "-"), "=")
		switch {
		case keys[name] != "":
			set(made, keys[name], scalar(value))
		case maps[name] != "":
			of := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
			for pair := range strings.SplitSeq(value, ",") {
				if key, value, ok := strings.Cut(pair, "="); ok {
					set(of, strings.TrimSpace(key), scalar(value))
				}
			}
			set(made, maps[name], of)
		case name == "config" || name == "config-dir":
			f.note(file+": kubelet-arg: "+name, "names another configuration of the kubelet", "give "+shorten(value)+", too")
		}
	}
	return made
}

func scalar(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.TrimSpace(value)}
}

// set sets a key. The last one of several counts, as with the kubelet.
func set(doc *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i < len(doc.Content); i += 2 {
		if doc.Content[i].Value == key {
			doc.Content[i+1] = value
			return
		}
	}
	doc.Content = append(doc.Content, scalar(key), value)
}
