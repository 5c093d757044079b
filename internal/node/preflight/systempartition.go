package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// systemPartitionGate is the kubelet's feature gate for its system partition. Kubernetes
// 1.37.0 lacks it (pkg/features/kube_features.go).
const systemPartitionGate = "NodeSystemPartition"

type kubeletSystem struct {
	Namespaces []string `yaml:"namespaces"`
	CPUSet     string   `yaml:"cpuset"`

	source string // the last file with the key; empty without one
}

// overlay applies the key of a later file. As the kubelet does, it keeps the parts that the
// file leaves out. A null value removes the key.
func (s *kubeletSystem) overlay(node *yaml.Node, file string) error {
	switch {
	case node.IsZero():
		return nil
	case node.ShortTag() == "!!null":
		*s = kubeletSystem{}
		return nil
	}
	err := node.Decode(s)
	if wrong, ok := errors.AsType[*yaml.TypeError](err); ok {
		return fmt.Errorf("parse kubelet configuration: systemPartition: %s", strings.Join(wrong.Errors, "; "))
	}
	if err != nil {
		return fmt.Errorf("parse kubelet configuration: systemPartition: %w", err)
	}
	s.source = file
	return nil
}

// parseSwitches parses a flag with switches, such as --feature-gates: A=true,B=false.
func parseSwitches(value string) map[string]bool {
	switches := make(map[string]bool)
	for one := range strings.SplitSeq(value, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(one), "=")
		if on, err := strconv.ParseBool(value); err == nil {
			switches[name] = on
		}
	}
	return switches
}

// checkSystemPartition compares the cgroup tree with the kubelet's next configuration.
func checkSystemPartition(e *evidence) {
	exists := false
	for _, pods := range e.pods {
		root := path.Join(cgroupRoot, pods.systemPartition())
		if info, err := fs.Stat(e.root, relative(root)); err == nil && info.IsDir() {
			exists = true
			e.checkSystemRoot(root)
		}
	}
	source := e.kubelet.system.source
	switch {
	case source == "":
	case !e.kubelet.gates[systemPartitionGate]:
		e.add(Info, source+": systemPartition", fmt.Sprintf("has no effect: the feature gate %s is off", systemPartitionGate), "")
	case !exists:
		e.add(Warning, source+": systemPartition",
			"the cgroup of the partition does not exist: the kubelet has not started with this configuration, or its version has no system partition (Kubernetes 1.37)",
			"restart the kubelet, and read its log")
	}
}

func (e *evidence) checkSystemRoot(root string) {
	cpus := e.cpusIn(path.Join(root, "cpuset.cpus"))
	switch {
	case !cpus.IsEmpty():
		e.add(Info, root, fmt.Sprintf("is the kubelet's system partition with cpuset %s: cpupoold does not place the pods in it", cpus), "")
	case e.config.SystemPartition == config.SystemPartitionStandDown:
		e.add(Info, root, "is the kubelet's system partition: cpupoold does not place the pods in it (systemPartition: standDown)", "")
	default:
		e.add(Info, root, "is the kubelet's system partition without a cpuset: cpupoold places the pods in it as all others", "")
	}
	if s := e.kubelet.system; s.source != "" {
		if next, err := cpuset.Parse(s.CPUSet); err == nil && !next.Equal(cpus) && e.kubelet.gates[systemPartitionGate] {
			e.add(Info, s.source+": systemPartition.cpuset",
				fmt.Sprintf("is %q, but the cgroup has %q: the kubelet writes its value at the next start", next, cpus), "")
		}
	}
	if both := cpus.Intersection(e.ownable()); resolvedPools(e) && !both.IsEmpty() {
		e.add(Warning, path.Join(root, "cpuset.cpus"),
			fmt.Sprintf("contains CPUs %s of the guaranteed pool: no new owner gets these CPUs", both),
			"give the partition and the guaranteed pool different CPUs, or remove systemPartition.cpuset from the kubelet's configuration")
	}
}

func (d kubepodsDir) systemPartition() string {
	if d.driver == cri.Systemd {
		return path.Join(d.path, strings.TrimSuffix(path.Base(d.path), ".slice")+"-system.slice")
	}
	return path.Join(d.path, "system")
}
