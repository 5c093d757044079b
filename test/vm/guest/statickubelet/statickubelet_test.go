//go:build guest

package statickubelet_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// TestStaticKubelet runs cpupoold with a static kubelet that allocates and releases CPUs. A management pod never leaves its CPUs, not for a moment,
// although the kubelet rewrites them with each change and at its restarts. All others run exactly on the CPUs of the kubelet's state.
func TestStaticKubelet(t *testing.T) {
	n := newNode(t)
	n.StartDaemon(config)
	n.AwaitNRI()
	kinds := manifest.EveryKind()
	kind := func(name string) manifest.Pod {
		return kinds[slices.IndexFunc(kinds, func(p manifest.Pod) bool { return p.Name == name })]
	}
	exclusive := func(name string) manifest.Pod {
		p := kind("exclusive")
		p.Name, p.Containers = name, []manifest.Container{{Name: "app", CPU: "1", Memory: "20Mi", Limited: true}}
		return p
	}
	n.Apply(kind("agent"), kind("impostor"))
	const shared = 2 // the pods of the line above
	n.settled("shared pods", shared, 0)
	agent, err := n.Find("agent", "app")
	if err != nil {
		t.Fatal(err)
	}

	s := n.watch(agent.Path, "0")
	n.Apply(exclusive("first"))
	n.settled("one owner", shared+1, 1)
	n.Apply(exclusive("second"))
	n.settled("two owners", shared+2, 2)
	n.Withdraw("first")
	n.settled("one owner again", shared+1, 1)
	s.end(t, "allocations and frees")

	s = n.watch(agent.Path, "0")
	n.Run("systemctl", "restart", "kubelet")
	n.Apply(exclusive("third")) // the kubelet is there again when it runs
	n.settled("after the kubelet's restart", shared+2, 2)
	s.end(t, "restart of the kubelet")

	n.StopDaemon()
	n.Withdraw("third")
	n.Eventually("the kubelet rewriting the management pod", func() error {
		c, err := n.Find("agent", "app")
		if err == nil && c.Effective.Equal(cpuset.Of(0)) {
			err = fmt.Errorf("CPUs without the daemon = %s; want a change by the kubelet", c.Effective)
		}
		return err
	})
	n.StartDaemon(config)
	n.settled("after the daemon's absence", shared+1, 1)
	n.Run("systemctl", "restart", "cpupoold")
	n.Withdraw("second") // maybe before the runtime asks the daemon again
	n.settled("after the daemon's restart", shared, 0)

	if p := n.Settled(); len(p.Plan.Assignments) > 0 {
		t.Errorf("assignments of cpupoold = %v; want none", p.Plan.Assignments)
	}
}

// TestRefusals checks that cpupoold starts with a static kubelet only with the key, and with another kubelet only
// without it.
func TestRefusals(t *testing.T) {
	n := newNode(t)
	check := func(what, config, want string) {
		t.Helper()
		n.Write(guestnode.ConfigFile, config)
		if out, err := n.Try("cpupoold", "run", "--config", guestnode.ConfigFile); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: run = %v, %s; want a refusal with %q", what, err, out, want)
		}
	}
	ours := strings.Replace(config, "exclusive: kubelet", "cpus: 2-3", 1)
	check("a second manager", ours, "exclusive: kubelet")
	check("no NRI", config+"nriSocket: none\n", "nriSocket")
	check("a CPU that is not reserved", strings.Replace(config, "cpus: 0", "cpus: 0-1", 1), "reservedSystemCPUs")
	before, err := os.ReadFile(kubeletConfig)
	if err != nil {
		t.Fatal(err)
	}
	none := strings.NewReplacer("cpuManagerPolicy: static", "cpuManagerPolicy: none",
		"cpuManagerPolicyOptions:\n  strict-cpu-reservation: \"true\"\n", "") // which the kubelet takes with static alone
	n.restartKubelet(none.Replace(string(before)))
	check("a kubelet of another policy", config, "no program would allocate exclusive CPUs")
}
