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
	"github.com/cpupoold/cpupoold/internal/node/managers"
)

// setting is a value of a configuration with its source.
type setting struct {
	value  string // empty if not set
	source string // file, or command line of a process
	key    string // its name in source
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
	systemCPU    setting // systemReserved.cpu; reservedSystemCPUs replaces it and kubeReserved.cpu
	kubeCPU      setting // kubeReserved.cpu
	strict       bool    // strict-cpu-reservation, of the CPU manager's policy options
	topology     setting // topologyManagerPolicy
	memory       setting // memoryManagerPolicy
	system       kubeletSystem
	gates        map[string]bool      // featureGates
	unreadable   []managers.FileError // files that exist and cannot be parsed
}

// readKubelet reads the running kubelet's configuration, else config.yaml in dir (kubeadm).
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
	for _, s := range k.settings() {
		if value, ok := flags[s.flag]; ok {
			*s.to = setting{value, source, "--" + s.flag}
		}
	}
	if gates, ok := flags["feature-gates"]; ok {
		k.setGates(parseGates(gates))
	}
	for _, s := range k.amounts() {
		if value, ok := flags[s.flag]; ok {
			*s.to = setting{cpuOf(value), source, "--" + s.flag}
		}
	}
	if options, ok := flags["cpu-manager-policy-options"]; ok {
		k.strict = hasStrictReservation(strings.Split(options, ","))
	}
	return k
}

// kubeletSetting is a value that a flag or a key of a file sets.
type kubeletSetting struct {
	flag, key string
	to        *setting
}

func (k *kubeletFacts) settings() []kubeletSetting {
	return []kubeletSetting{
		{"cpu-manager-policy", "cpuManagerPolicy", &k.policy},
		{"cgroup-driver", "cgroupDriver", &k.cgroupDriver},
		{"reserved-cpus", "reservedSystemCPUs", &k.reserved},
		{"topology-manager-policy", "topologyManagerPolicy", &k.topology},
		{"memory-manager-policy", "memoryManagerPolicy", &k.memory},
	}
}

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
		k.unreadable = append(k.unreadable, managers.FileError{Name: file, Err: err})
		return
	}
	k.known = true
	for _, s := range k.settings() {
		if value, ok := config.values[s.key]; ok {
			*s.to = setting{value, file, s.key}
		}
	}
	for _, s := range k.amounts() {
		if value, ok := config.reserved[s.key]["cpu"]; ok {
			*s.to = setting{value, file, s.key + ".cpu"}
		}
	}
	k.setGates(config.gates)
	if config.strict != nil {
		k.strict = *config.strict
	}
}

// hasStrictReservation reports whether name=value options enable strict-cpu-reservation.
func hasStrictReservation(options []string) bool {
	for _, o := range options {
		name, value, _ := strings.Cut(strings.TrimSpace(o), "=")
		if on, err := strconv.ParseBool(value); name == "strict-cpu-reservation" && err == nil {
			return on
		}
	}
	return false
}

type kubeletConfig struct {
	values map[string]string // of settings, by key; absent keys are missing
	// reserved holds systemReserved and kubeReserved: amounts by resource.
	reserved map[string]map[string]string
	strict   *bool // cpuManagerPolicyOptions; nil if absent
	system   yaml.Node
	gates    map[string]bool
}

// parseKubeletConfig parses a KubeletConfiguration or a drop-in, in YAML or JSON. A null
// value, with which a drop-in removes a value of the main file, becomes the empty string.
func parseKubeletConfig(b []byte) (kubeletConfig, error) {
	var keys struct {
		SystemPartition         yaml.Node            `yaml:"systemPartition"`
		CPUManagerPolicyOptions map[string]string    `yaml:"cpuManagerPolicyOptions"`
		SystemReserved          map[string]string    `yaml:"systemReserved"`
		KubeReserved            map[string]string    `yaml:"kubeReserved"`
		FeatureGates            map[string]bool      `yaml:"featureGates"`
		Others                  map[string]yaml.Node `yaml:",inline"`
	}
	if err := yaml.Unmarshal(b, &keys); err != nil {
		return kubeletConfig{}, fmt.Errorf("parse kubelet configuration: %w", err)
	}
	c := kubeletConfig{values: make(map[string]string), system: keys.SystemPartition, gates: keys.FeatureGates}
	c.reserved = map[string]map[string]string{systemReserved: keys.SystemReserved, kubeReserved: keys.KubeReserved}
	if keys.CPUManagerPolicyOptions != nil {
		on, err := strconv.ParseBool(keys.CPUManagerPolicyOptions["strict-cpu-reservation"])
		on = on && err == nil
		c.strict = &on
	}
	var errs []error
	for _, s := range new(kubeletFacts).settings() {
		node, there := keys.Others[s.key]
		if node.Kind == yaml.AliasNode {
			node = *node.Alias
		}
		switch {
		case !there:
		case node.Kind != yaml.ScalarNode:
			errs = append(errs, fmt.Errorf("parse kubelet configuration: line %d: %s: want a single value", node.Line, s.key))
		case node.ShortTag() == "!!null":
			c.values[s.key] = ""
		default:
			c.values[s.key] = node.Value
		}
	}
	return c, errors.Join(errs...)
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
