package preflight

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
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
	pid          int  // 0 if no kubelet runs
	rootDir      string
	policy       setting // cpuManagerPolicy
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
// config.yaml in dir, the path of kubeadm. It does not find a kubelet inside another program
// (k3s); cpuManagerState reads its state file.
func readKubelet(root fs.FS, dir string) kubeletFacts {
	pid, flags := findKubelet(root)
	k := kubeletFacts{rootDir: dir, pid: pid}
	file, optional := path.Join(dir, "config.yaml"), true
	if pid != 0 {
		k.known = true
		file, optional = flags["config"], false
		if d := flags["root-dir"]; d != "" {
			k.rootDir = d
		}
	}
	if file != "" {
		k.readConfig(root, file, optional)
	}
	if d := flags["config-dir"]; d != "" {
		k.readDropIns(root, d)
	}
	source := fmt.Sprintf("command line of the kubelet (process %d)", pid)
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

// findKubelet returns the process with the lowest number whose program is named kubelet, and
// its flags. pid is 0 if no kubelet runs.
func findKubelet(root fs.FS) (pid int, flags map[string]string) {
	for _, name := range directories(root, "/proc") {
		n, err := strconv.Atoi(name)
		if err != nil || pid != 0 && n > pid {
			continue
		}
		b, err := readFile(root, path.Join("/proc", name, "cmdline"))
		if err != nil {
			continue // the process has ended, or access is denied
		}
		if program, _, _ := bytes.Cut(b, []byte{0}); path.Base(string(program)) == "kubelet" {
			pid, flags = n, parseFlags(b)
		}
	}
	return pid, flags
}

// parseFlags parses /proc/PID/cmdline. The kubelet accepts --name=value, --name value and _
// instead of -. The last value of a flag counts.
func parseFlags(cmdline []byte) map[string]string {
	args := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	flags := make(map[string]string)
	for i := 1; i < len(args); i++ {
		arg, ok := strings.CutPrefix(args[i], "--")
		if !ok || arg == "" {
			continue
		}
		name, value, ok := strings.Cut(arg, "=")
		if !ok && i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
			i++
			value = args[i]
		}
		flags[strings.ReplaceAll(name, "_", "-")] = value
	}
	return flags
}

func (k *kubeletFacts) readConfig(root fs.FS, file string, optional bool) {
	b, err := readFile(root, file)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return
	}
	var config kubeletConfig
	if err == nil {
		config, err = parseKubeletConfig(b)
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

// readDropIns reads the files of --config-dir in the kubelet's order (fs.WalkDir).
func (k *kubeletFacts) readDropIns(root fs.FS, dir string) {
	var files []string
	err := fs.WalkDir(root, relative(dir), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && path.Ext(name) == ".conf" {
			files = append(files, "/"+name)
		}
		return err
	})
	if err != nil {
		k.unreadable = append(k.unreadable, fileError{dir, err})
		return
	}
	for _, file := range files {
		k.readConfig(root, file, false)
	}
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
