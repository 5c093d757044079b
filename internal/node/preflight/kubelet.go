package preflight

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strconv"

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
	strict       bool    // strictReservation
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
	k := kubeletFacts{process: process, stateDirs: []string{dir}, known: process.PID != 0, gates: make(map[string]bool)}
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
	maps.Copy(k.gates, parseSwitches(flags["feature-gates"]))
	for _, s := range k.amounts() {
		if value, ok := flags[s.flag]; ok {
			*s.to = setting{cpuOf(value), source, "--" + s.flag}
		}
	}
	if options, ok := flags["cpu-manager-policy-options"]; ok {
		k.strict = parseSwitches(options)[strictReservation]
	}
	return k
}

// strictReservation is one of the CPU manager's policy options.
const strictReservation = "strict-cpu-reservation"

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

// readConfig applies a file. A file with an error has no effect.
func (k *kubeletFacts) readConfig(f hostkubelet.File) {
	next, err := *k, f.Err
	if next.gates = maps.Clone(k.gates); err == nil {
		err = next.apply(f.Data, f.Name)
	}
	if err != nil {
		k.unreadable = append(k.unreadable, managers.FileError{Name: f.Name, Err: err})
		return
	}
	*k = next
	k.known = true
}

// apply parses a KubeletConfiguration or a drop-in, in YAML or JSON. A null value, with which a drop-in removes
// a value of the main file, becomes the empty string.
func (k *kubeletFacts) apply(b []byte, file string) error {
	var keys struct {
		SystemPartition         yaml.Node            `yaml:"systemPartition"`
		CPUManagerPolicyOptions map[string]string    `yaml:"cpuManagerPolicyOptions"`
		SystemReserved          map[string]string    `yaml:"systemReserved"`
		KubeReserved            map[string]string    `yaml:"kubeReserved"`
		FeatureGates            map[string]bool      `yaml:"featureGates"`
		Others                  map[string]yaml.Node `yaml:",inline"`
	}
	if err := yaml.Unmarshal(b, &keys); err != nil {
		return fmt.Errorf("parse kubelet configuration: %w", err)
	}
	var errs []error
	for _, s := range k.settings() {
		node, there := keys.Others[s.key]
		if node.Kind == yaml.AliasNode {
			node = *node.Alias
		}
		switch {
		case !there:
		case node.Kind != yaml.ScalarNode:
			errs = append(errs, fmt.Errorf("parse kubelet configuration: line %d: %s: want a single value", node.Line, s.key))
		case node.ShortTag() == "!!null":
			*s.to = setting{"", file, s.key}
		default:
			*s.to = setting{node.Value, file, s.key}
		}
	}
	reserved := map[string]map[string]string{systemReserved: keys.SystemReserved, kubeReserved: keys.KubeReserved}
	for _, s := range k.amounts() {
		if value, ok := reserved[s.key]["cpu"]; ok {
			*s.to = setting{value, file, s.key + ".cpu"}
		}
	}
	if keys.CPUManagerPolicyOptions != nil {
		on, err := strconv.ParseBool(keys.CPUManagerPolicyOptions[strictReservation])
		k.strict = on && err == nil
	}
	maps.Copy(k.gates, keys.FeatureGates)
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return k.system.overlay(&keys.SystemPartition, file)
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
