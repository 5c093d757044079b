//go:build guest

package daemon_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// resize sends the kubelet's resize request to the runtime: no cpuset, and the new total of
// the pod.
func (r *runtimeNode) resize(p pod, milli int64) error {
	ctx, cancel := call()
	defer cancel()
	res := &runtime.LinuxContainerResources{CpuShares: max(milli*1024/1000, 2), CpuQuota: milli * 100, CpuPeriod: 100_000}
	if _, err := r.rpc.UpdateContainerResources(ctx, &runtime.UpdateContainerResourcesRequest{ContainerId: p.container, Linux: res}); err != nil {
		return err
	}
	_, err := r.rpc.UpdatePodSandboxResources(ctx, &runtime.UpdatePodSandboxResourcesRequest{PodSandboxId: p.id, Resources: res})
	return err
}

// allowed compares Cpus_allowed_list of each process of a container, and its own request, with the expected values.
func (r *runtimeNode) allowed(p pod, cpus string) error {
	st, err := r.fs.Read(p.path)
	if err != nil {
		return err
	}
	if st.CPUs.String() != cpus || st.Effective.String() != cpus {
		return fmt.Errorf("%s: cpuset.cpus is %s, effective %s; want %s", p.name, st.CPUs, st.Effective, cpus)
	}
	lists, err := r.processes(p.path)
	if err == nil && len(lists) == 0 {
		err = errors.New("it has no processes")
	}
	for pid, list := range lists {
		if list != cpus {
			err = errors.Join(err, fmt.Errorf("%s: Cpus_allowed_list of process %d is %s; want %s", p.name, pid, list, cpus))
		}
	}
	return err
}

// TestResize resizes containers in place, as the kubelet does. The resync is an hour away.
func TestResize(t *testing.T) {
	for _, m := range newNode(t).modes() {
		t.Run(m.name, func(t *testing.T) { resizeInPlace(t, m) })
	}
}

func resizeInPlace(t *testing.T, m mode) {
	t.Helper()
	n := newNode(t)
	r := n.withoutKubelet()
	n.startDaemon(m.config)
	n.eventually("the daemon gets the runtime's request", func() error {
		_, body, err := n.get("/metrics")
		if err == nil && !strings.Contains(body, `cpupoold_source_state{source="nri",state="ok"} 1`) {
			err = errors.New("it is not")
		}
		return err
	})
	app, other := r.mustStart(2000, "default", nil), r.mustStart(1000, "default", nil)
	shared := r.mustStart(500, "default", nil)
	for _, step := range []struct {
		name    string
		milli   int64
		cpus    string
		quota   int64 // -1: none
		refused string
	}{
		{"as created", 2000, "4-5", -1, ""},
		{"grows next to its CPUs", 3000, "4-5,7", -1, ""},
		{"more than there is", 4000, "4-5,7", -1, "0 of 4 CPUs of the guaranteed pool are free; it keeps CPUs 4-5,7"},
		{"shrinks to a part", 2000, "4-5", -1, ""},
		{"a fraction shares", 1500, "2-3", 150_000, ""},
		{"and back", 1000, "4", -1, ""},
	} {
		err := r.resize(app, step.milli)
		if (err == nil) != (step.refused == "") || err != nil && !strings.Contains(err.Error(), step.refused) {
			t.Fatalf("%s: %v; want %q\n%s", step.name, err, step.refused, n.evidence())
		}
		r.eventually(step.name, func() error {
			st, err := r.fs.Read(app.path)
			if err == nil && st.Quota != step.quota {
				err = fmt.Errorf("cpu.max has %d; want %d", st.Quota, step.quota)
			}
			appIs := m.typ
			if step.quota >= 0 {
				appIs = cgroup.MemberPartition
			}
			return errors.Join(err, r.is(app, appIs, step.cpus), r.is(other, m.typ, "6"), r.allowed(shared, "2-3"))
		})
	}
	n.quiet()
	n.invariants()
}
