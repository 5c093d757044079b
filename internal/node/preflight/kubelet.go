package preflight

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/internal/node/hostkubelet"
)

// setting is a value of a configuration with its source.
type setting struct {
	value  string // empty if not set
	source string // file, or command line of a process
	key    string // its name in source
}

// fileError is a file that exists and cannot be parsed.
type fileError struct {
	name string
	err  error
}

// kubeletFacts holds the configuration of this node's kubelet (kubelet.config.k8s.io/v1beta1).
// The file of --config comes first, then *.conf in --config-dir, then the command line. Later
// sources override earlier ones.
type kubeletFacts struct {
	known        bool // a kubelet runs, or has a configuration file
	process      hostkubelet.Kubelet
	stateDirs    []string // where its CPU manager's state can be: kubeletStateDir, then --root-dir if it differs
	endpoint     string   // of the runtime; empty if unknown
	policy       setting  // cpuManagerPolicy
	cgroupDriver setting
	reserved     setting // reservedSystemCPUs
	strict       bool    // strict-cpu-reservation, of the CPU manager's policy options
	topology     setting // topologyManagerPolicy
	memory       setting // memoryManagerPolicy
	system       kubeletSystem
	gates        map[string]bool // featureGates
	unreadable   []fileError
}

// readKubelet reads the configuration of the running kubelet. Without a kubelet it reads
// config.yaml in dir, the path of kubeadm.
func readKubelet(root fs.FS, dir string) kubeletFacts {
	process := hostkubelet.Find(root)
	flags := process.Flags
	k := kubeletFacts{process: process, stateDirs: []string{dir}, known: process.PID != 0}
	if d := flags["root-dir"]; d != "" && path.Clean(d) != path.Clean(dir) {
		k.stateDirs = append(k.stateDirs, d)
	}
	for _, f := range process.Files(dir) {
		k.readConfig(f)
	}
	k.endpoint, _ = process.Endpoint(dir) // checkKubeletConfig reports a file that cannot be read
	source := fmt.Sprintf("command line of the kubelet (process %d)", process.PID)
	for name, s := range map[string]*setting{
		"cpu-manager-policy":      &k.policy,
		"cgroup-driver":           &k.cgroupDriver,
		"reserved-cpus":           &k.reserved,
		"topology-manager-policy": &k.topology,
		"memory-manager-policy":   &k.memory,
	} {
		if value, ok := flags[name]; ok {
			*s = setting{value, source, "--" + name}
		}
	}
	if gates, ok := flags["feature-gates"]; ok {
		k.setGates(parseGates(gates))
	}
	if options, ok := flags["cpu-manager-policy-options"]; ok {
		k.strict = hasStrictReservation(strings.Split(options, ","))
	}
	return k
}

// readConfig applies a configuration file.
func (k *kubeletFacts) readConfig(f hostkubelet.File) {
	var config kubeletConfig
	file, err := f.Name, f.Err
	if err == nil {
		config, err = parseKubeletConfig(f.Data)
	}
	if err == nil {
		err = k.system.overlay(&config.system, file)
	}
	if err != nil {
		k.unreadable = append(k.unreadable, fileError{file, err})
		return
	}
	k.known = true
	k.policy.overlay(config.cpuManagerPolicy, file, "cpuManagerPolicy")
	k.cgroupDriver.overlay(config.cgroupDriver, file, "cgroupDriver")
	k.reserved.overlay(config.reservedSystemCPUs, file, "reservedSystemCPUs")
	k.topology.overlay(config.topologyManagerPolicy, file, "topologyManagerPolicy")
	k.memory.overlay(config.memoryManagerPolicy, file, "memoryManagerPolicy")
	k.setGates(config.gates)
	if config.strict != nil {
		k.strict = *config.strict
	}
}

// hasStrictReservation reports whether options of the CPU manager (name=value) enable
// strict-cpu-reservation.
func hasStrictReservation(options []string) bool {
	for _, o := range options {
		name, value, _ := strings.Cut(strings.TrimSpace(o), "=")
		if on, err := strconv.ParseBool(value); name == "strict-cpu-reservation" && err == nil {
			return on
		}
	}
	return false
}

// kubeletConfig holds the keys that the checks use. A nil value means that the key is absent.
type kubeletConfig struct {
	cpuManagerPolicy, cgroupDriver, reservedSystemCPUs *string
	topologyManagerPolicy, memoryManagerPolicy         *string
	strict                                             *bool // cpuManagerPolicyOptions
	system                                             yaml.Node
	gates                                              map[string]bool
}

// parseKubeletConfig parses a KubeletConfiguration or a drop-in, in YAML or JSON. A null
// value, with which a drop-in removes a value of the main file, becomes the empty string.
func parseKubeletConfig(b []byte) (kubeletConfig, error) {
	var keys struct {
		CPUManagerPolicy      yaml.Node `yaml:"cpuManagerPolicy"`
		CgroupDriver          yaml.Node `yaml:"cgroupDriver"`
		ReservedSystemCPUs    yaml.Node `yaml:"reservedSystemCPUs"`
		TopologyManagerPolicy yaml.Node `yaml:"topologyManagerPolicy"`
		MemoryManagerPolicy   yaml.Node `yaml:"memoryManagerPolicy"`
		SystemPartition       yaml.Node `yaml:"systemPartition"`

		CPUManagerPolicyOptions map[string]string `yaml:"cpuManagerPolicyOptions"`
		FeatureGates            map[string]bool   `yaml:"featureGates"`
	}
	if err := yaml.Unmarshal(b, &keys); err != nil {
		return kubeletConfig{}, fmt.Errorf("parse kubelet configuration: %w", err)
	}
	c := kubeletConfig{system: keys.SystemPartition, gates: keys.FeatureGates}
	if keys.CPUManagerPolicyOptions != nil {
		on, err := strconv.ParseBool(keys.CPUManagerPolicyOptions["strict-cpu-reservation"])
		on = on && err == nil
		c.strict = &on
	}
	return c, errors.Join(
		scalar(&c.cpuManagerPolicy, &keys.CPUManagerPolicy, "cpuManagerPolicy"),
		scalar(&c.cgroupDriver, &keys.CgroupDriver, "cgroupDriver"),
		scalar(&c.reservedSystemCPUs, &keys.ReservedSystemCPUs, "reservedSystemCPUs"),
		scalar(&c.topologyManagerPolicy, &keys.TopologyManagerPolicy, "topologyManagerPolicy"),
		scalar(&c.memoryManagerPolicy, &keys.MemoryManagerPolicy, "memoryManagerPolicy"),
	)
}

func scalar(to **string, node *yaml.Node, key string) error {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch {
	case node.IsZero():
		return nil
	case node.Kind != yaml.ScalarNode:
		return fmt.Errorf("parse kubelet configuration: line %d: %s: want a single value", node.Line, key)
	case node.ShortTag() == "!!null":
		*to = new(string)
	default:
		*to = &node.Value
	}
	return nil
}

// overlay sets the value of a later file, if the file has one.
func (s *setting) overlay(value *string, file, key string) {
	if value != nil {
		*s = setting{*value, file, key}
	}
}

// parseCPUManagerState returns policyName of the kubelet's cpu_manager_state. Versions 1 to 4
// of the file (Kubernetes 1.8 to 1.37) have it at the top level.
func parseCPUManagerState(b []byte) (policy string, err error) {
	var state struct {
		PolicyName *string `json:"policyName"`
	}
	if err := json.Unmarshal(b, &state); err != nil {
		return "", fmt.Errorf("parse CPU manager state: %w", err)
	}
	if state.PolicyName == nil || *state.PolicyName == "" {
		return "", errors.New("parse CPU manager state: policyName is missing")
	}
	return *state.PolicyName, nil
}
