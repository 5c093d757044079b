//go:build guest

package firstcpus_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
)

// TestSharedCPUsVariable starts a container whose author sets OPENSHIFT_SHARED_CPUS to exclusive CPUs. CRI-O adds these CPUs to the container with
// each update. With NRI, the container does not get the variable. Without NRI, the daemon reports the variable and keeps the container in its pool.
func TestSharedCPUsVariable(t *testing.T) {
	if g := guestnode.New(t); g.Runtime.Name != "cri-o" {
		t.Skip("only CRI-O reads the variable")
	}
	allowTime(t)
	for name, nri := range map[string]bool{"NRI": true, "no NRI": false} {
		t.Run(name, func(t *testing.T) {
			n := &course{newNode(t), make(map[string]int), make(map[string]int)}
			if nri && !n.Runtime.NRI {
				t.Skip("the runtime has no NRI")
			}
			if !nri && n.Runtime.NRI {
				configure(n.Node, "/etc/crio/crio.conf.d/zz-no-nri.conf", "[crio.nri]\nenable_nri = false\n")
				n.Runtime.NRI = false
			}
			n.StartDaemon(fmt.Sprintf(pools, "2-3", "cpus: 4-7"))
			n.connected()
			attacker, err := n.start(500, &runtime.KeyValue{Key: "OPENSHIFT_SHARED_CPUS", Value: []byte("4-7")})
			if err != nil {
				t.Fatal(err)
			}
			owner, err := n.start(2000)
			if err != nil {
				t.Fatal(err)
			}
			shared, exclusive := place{cpuset.Range(2, 3), 2}, place{cpuset.Range(4, 7), 2}
			n.inside(attacker, shared)
			n.inside(owner, exclusive)
			if nri {
				n.hasNoVariable(attacker)
			} else {
				n.reportsVariable(attacker)
			}
			// The kubelet updates a container when its pod is resized.
			ctx, cancel := patiently()
			defer cancel()
			if _, err := n.rpc.UpdateContainerResources(ctx, &runtime.UpdateContainerResourcesRequest{
				ContainerId: attacker.container, Linux: &runtime.LinuxContainerResources{CpuShares: 614},
			}); err != nil {
				t.Fatal(err)
			}
			n.inside(attacker, shared)
			n.inside(owner, exclusive)
		})
	}
}

// hasNoVariable checks that no process of a container has a value of the variable.
func (n *course) hasNoVariable(p pod) {
	n.Helper()
	st, err := n.cgroup(p)
	if err != nil {
		n.Fatal(err)
	}
	if st.Inner != nil {
		st = *st.Inner
	}
	pids, err := n.FS.ReadFile(st.Path, "cgroup.procs")
	if err != nil || len(strings.Fields(string(pids))) == 0 {
		n.Fatalf("processes of %s: %q, %v", p.name, pids, err)
	}
	for pid := range strings.FieldsSeq(string(pids)) {
		environ, err := os.ReadFile("/proc/" + pid + "/environ")
		if err != nil {
			n.Fatal(err)
		}
		for v := range strings.SplitSeq(string(environ), "\x00") {
			if value, is := strings.CutPrefix(v, "OPENSHIFT_SHARED_CPUS="); is && value != "" {
				n.Errorf("process %s of %s has %s", pid, p.name, v)
			}
		}
	}
}

// reportsVariable waits until the daemon reports the variable of a container.
func (n *course) reportsVariable(p pod) {
	n.Helper()
	n.Eventually("problem of the variable", func() error {
		var s inspect.Status
		if err := json.Unmarshal([]byte(n.Run("cpupoold", "status", "-o", "json")), &s); err != nil {
			return err
		}
		if !slices.ContainsFunc(s.Problems, func(problem inspect.Problem) bool {
			return problem.Code == "SharedCPUsVariable" && problem.Pod == "default/"+p.name
		}) {
			return fmt.Errorf("problems: %+v", s.Problems)
		}
		return nil
	})
}
