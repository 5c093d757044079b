package kubelet_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	kubeset "k8s.io/utils/cpuset"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vectors/choice"
)

// Some of the options are behind gates.
func TestMain(m *testing.M) {
	gates := map[string]bool{"CPUManagerPolicyAlphaOptions": true, "CPUManagerPolicyBetaOptions": true}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		fmt.Fprintln(os.Stderr, "set feature gates:", err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// policy is the kubelet's static policy on a machine, with its state in memory.
type policy struct {
	cpumanager.Policy
	state state.State
}

// newPolicy returns a policy that may allocate free, and keeps reserved for the system.
// hint lists the NUMA nodes that its topology manager prefers; it may be empty.
func newPolicy(table choice.Table, options map[string]string, free, reserved cpuset.Set, hint []int) (*policy, error) {
	var manager topologymanager.TopologyHint
	if len(hint) > 0 {
		mask, err := bitmask.NewBitMask(hint...)
		if err != nil {
			return nil, err
		}
		manager.NUMANodeAffinity = mask
	}
	logger := logr.Discard()
	affinity := topologymanager.NewFakeManagerWithHint(logger, &manager)
	p, err := cpumanager.NewStaticPolicy(logger, details(table), reserved.Len(), toKube(reserved), affinity, options)
	if err != nil {
		return nil, err
	}
	s := state.NewMemoryState(logger)
	s.SetDefaultCPUSet(toKube(free.Union(reserved)))
	return &policy{Policy: p, state: s}, nil
}

// allocate gives a container its CPUs.
func (p *policy) allocate(pod *v1.Pod) (cpuset.Set, error) {
	container := &pod.Spec.Containers[0]
	if err := p.Allocate(logr.Discard(), p.state, pod, container, lifecycle.AddOperation); err != nil {
		return cpuset.Set{}, err
	}
	set, ok := p.state.GetCPUSet(string(pod.UID), container.Name)
	if !ok {
		return cpuset.Set{}, fmt.Errorf("the kubelet gave %s nothing and no error", container.Name)
	}
	return cpuset.Of(set.UnsortedList()...), nil
}

// guaranteed is a pod with one container that asks for n exclusive CPUs.
func guaranteed(n int) *v1.Pod {
	list := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(n), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(1<<30, resource.BinarySI),
	}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{
		Name: "c", Resources: v1.ResourceRequirements{Requests: list, Limits: list},
	}}}}
	pod.UID = types.UID("pod")
	return pod
}

// details is the machine in the kubelet's form.
func details(table choice.Table) *topology.CPUTopology {
	cpus := topology.CPUDetails{}
	for _, row := range table {
		cpus[row[choice.CPU]] = topology.CPUInfo{
			CoreID: row[choice.Core], SocketID: row[choice.Socket], NUMANodeID: row[choice.Node], UncoreCacheID: row[choice.Cache],
		}
	}
	return &topology.CPUTopology{
		NumCPUs: len(table), NumCores: cpus.Cores().Size(), NumSockets: cpus.Sockets().Size(),
		NumNUMANodes: cpus.NUMANodes().Size(), NumUncoreCache: cpus.UncoreCaches().Size(), CPUDetails: cpus,
	}
}

func toKube(s cpuset.Set) kubeset.CPUSet {
	var cpus []int
	for cpu := range s.All() {
		cpus = append(cpus, cpu)
	}
	return kubeset.New(cpus...)
}
