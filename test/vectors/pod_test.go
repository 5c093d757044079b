package vectors_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/test/vectors/choice"
)

// podCase is policy_allocate, one container of a pod, and policy_allocate_all and
// policy_pod, all of them in the order of their start.
type podCase struct {
	Topology    string
	NumReserved int         `json:"num_reserved"`
	Reserved    *cpuset.Set `json:"reserved"`
	Hint        []int       `json:"numa_affinity"`
	Options     map[string]string
	State       struct {
		Assignments map[string]map[string]cpuset.Set
		Default     cpuset.Set
	}
	Pod       podSpec
	Container string
	Expect    struct {
		kubeletChoice
		Assignments  map[string]map[string]cpuset.Set
		PerContainer []struct {
			Container string
			CPUSet    *cpuset.Set
		} `json:"per_container"`
	}
}

// podSpec is the part of a pod that matters.
type podSpec struct {
	Metadata struct{ UID string }
	Spec     struct{ InitContainers, Containers []containerSpec }
}

type containerSpec struct {
	Name          string
	RestartPolicy string
	Resources     struct{ Requests, Limits map[string]string }
}

// cpus is the number of exclusive CPUs of a container in a guaranteed pod; 0 when
// it shares.
func (c containerSpec) cpus() int {
	for _, name := range []string{"cpu", "memory"} {
		if c.Resources.Limits[name] != c.Resources.Requests[name] {
			return 0
		}
	}
	n, err := strconv.Atoi(c.Resources.Requests["cpu"])
	if err != nil {
		return 0 // a fraction, such as 977m
	}
	return n
}

func (m machines) checkPolicyAllocate(raw json.RawMessage) error {
	c, err := decode[podCase](raw)
	if err != nil {
		return err
	}
	if held := c.State.Assignments[c.Pod.Metadata.UID][c.Container]; !held.IsEmpty() {
		return fmt.Errorf("%s holds %s already: %w", c.Container, held, errNoAllocation)
	}
	at := slices.IndexFunc(c.Pod.Spec.Containers, func(s containerSpec) bool { return s.Name == c.Container })
	if at < 0 {
		return fmt.Errorf("case names container %q, which its pod does not have", c.Container)
	}
	n := c.Pod.Spec.Containers[at].cpus()
	if n == 0 {
		if c.Expect.CPUSet != nil {
			return fmt.Errorf("case is misread: %s does not share", c.Container)
		}
		return fmt.Errorf("%s shares: %w", c.Container, errNoAllocation)
	}
	s, err := c.start(m)
	if err != nil {
		return err
	}
	return c.Expect.check(s.pick(n))
}

// checkPolicyPod compares each container's choice with the kubelet's, from the
// kubelet's state, and then all of ours with all of theirs.
func (m machines) checkPolicyPod(raw json.RawMessage) error {
	c, err := decode[podCase](raw)
	if err != nil {
		return err
	}
	theirs, err := c.start(m)
	if err != nil {
		return err
	}
	ours := theirs
	for i, spec := range slices.Concat(c.Pod.Spec.InitContainers, c.Pod.Spec.Containers) {
		n := spec.cpus()
		if n == 0 {
			continue
		}
		want, ok := c.expected(spec.Name)
		if !ok {
			return fmt.Errorf("case is misread: nothing is expected for %s", spec.Name)
		}
		if err := (kubeletChoice{CPUSet: &want}).check(theirs.pick(n)); err != nil {
			return fmt.Errorf("%s: %w", spec.Name, err)
		}
		got, err := ours.pick(n).Take()
		if err != nil {
			return fmt.Errorf("%s: %w", spec.Name, err)
		}
		reuse := i < len(c.Pod.Spec.InitContainers) && spec.RestartPolicy != "Always"
		theirs, ours = theirs.after(want, reuse), ours.after(got, reuse)
	}
	worse, trade := choice.Worse(theirs.options, choice.Count(ours.topology, ours.pod), choice.Count(ours.topology, theirs.pod))
	if len(worse) > 0 && !trade {
		return fmt.Errorf("the pod gets %s where the kubelet gives %s: %q", ours.pod, theirs.pod, worse)
	}
	return nil
}

func (c podCase) expected(container string) (cpuset.Set, bool) {
	for _, e := range c.Expect.PerContainer {
		if e.Container == container && e.CPUSet != nil {
			return *e.CPUSet, true
		}
	}
	set, ok := c.Expect.Assignments[c.Pod.Metadata.UID][container]
	return set, ok
}

// podState is the state before the next container of a pod.
type podState struct {
	topology   *topology.Topology
	options    allocate.Options
	hint       cpuset.Set
	free       cpuset.Set
	pod, reuse cpuset.Set // all that the pod got, and the part that is free for it again
}

// start is the state before the pod's first container.
func (c podCase) start(m machines) (podState, error) {
	t, err := m.topology(c.Topology)
	if err != nil {
		return podState{}, err
	}
	options, err := choice.Options(c.Options)
	if err != nil {
		return podState{}, err
	}
	reserved := lowest(m[c.Topology].CPUs, c.NumReserved)
	if c.Reserved != nil {
		reserved = *c.Reserved
	}
	if reserved.Len() != c.NumReserved {
		return podState{}, errors.New("number of reserved CPUs differs from the case's number")
	}
	free := c.State.Default.Difference(reserved).Intersection(t.Online)
	return podState{topology: t, options: options, hint: cpuset.Of(c.Hint...), free: free}, nil
}

// lowest returns the n CPUs that the kubelet reserves by default on an idle machine:
// core by core, without regard to whole nodes, which no case reserves.
func lowest(table choice.Table, n int) cpuset.Set {
	rows := slices.Clone(table)
	slices.SortFunc(rows, func(a, b [5]int) int {
		for _, column := range []int{choice.Socket, choice.Node, choice.Core, choice.CPU} {
			if a[column] != b[column] {
				return a[column] - b[column]
			}
		}
		return 0
	})
	var cpus []int
	for _, row := range rows[:min(n, len(rows))] {
		cpus = append(cpus, row[choice.CPU])
	}
	return cpuset.Of(cpus...)
}

func (s podState) pick(n int) choice.Pick {
	return choice.Pick{
		Topology: s.topology,
		Free:     s.free.Union(s.reuse),
		Request:  allocate.Request{CPUs: n, Near: s.pod, Nodes: s.hint, Options: s.options},
	}
}

// after is the state when a container has got cpus, which the next ones may reuse
// or not.
func (s podState) after(cpus cpuset.Set, reuse bool) podState {
	s.free = s.free.Difference(cpus)
	s.pod = s.pod.Union(cpus)
	if reuse {
		s.reuse = s.reuse.Union(cpus)
	} else {
		s.reuse = s.reuse.Difference(cpus)
	}
	return s
}
