//go:build guest

package openshift_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

var guide = flag.String("guide", "", "the file with docs/how-to/migrate/openshift.md")

// Files that OpenShift's operator writes.
const (
	table = `[crio.runtime.workloads.management]
activation_annotation = "target.workload.openshift.io/management"
annotation_prefix = "resources.workload.openshift.io"
resources = { "cpushares" = 0, "cpuset" = "0-1" }
`
	cluster = `apiVersion: v1
kind: List
items:
- apiVersion: performance.openshift.io/v2
  kind: PerformanceProfile
  metadata: {name: node}
  spec:
    cpu: {reserved: 0-1, isolated: 2-7}
- {apiVersion: v1, kind: Namespace, metadata: {name: kube-system, annotations: {workload.openshift.io/allowed: management}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: default}}
`
)

// node is a guest on which the test follows the guide as an administrator would.
type node struct {
	*guestnode.Node
	guide string
}

// TestOpenShift follows the guide from CRI-O's workloads to cpupoold and back.
func TestOpenShift(t *testing.T) {
	text, err := os.ReadFile(*guide)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{guestnode.New(t), string(text)}
	n.Run("mkdir", "-p", "/etc/kubernetes", "/etc/crio/crio.conf.d")
	n.follow("mkdir -p node")
	n.Write("/root/node/cluster.yaml", cluster)
	n.Write("/etc/crio/crio.conf.d/99-workload-pinning.conf", table)
	n.Write("/etc/kubernetes/openshift-workload-pinning", `{"management":{"cpuset":"0-1"}}`)
	n.Run("systemctl", "restart", "crio")
	reserved, all := cpuset.Range(0, 1), cpuset.Range(0, 7)
	n.Apply(platform(), pod("du", "2"))
	n.runsOn("platform", reserved)
	n.runsOn("du", all)

	n.follow("cp -r /etc/crio/crio.conf.d /etc/kubernetes/openshift-workload-pinning node/",
		"kubectl cpupool import -R -f node >cpupoold.yaml",
		"kubectl cpupool import -R -f node --reading documents >documents.yaml",
		"install -D -m 0644 cpupoold.yaml /etc/cpupoold/config.yaml")
	n.Logf("by the implementation:\n%s\nby the documents:\n%s", n.Run("cat", "/root/cpupoold.yaml"), n.Run("cat", "/root/documents.yaml"))
	if out, err := n.Try("cpupoold", "check"); err == nil || !strings.Contains(out, "crio.runtime.workloads.management") {
		t.Fatalf("check with CRI-O's table: %v\n%s", err, out)
	}
	n.follow("rm -f /etc/crio/crio.conf.d/01-workload-pinning-default.conf /etc/crio/crio.conf.d/99-workload-pinning.conf /etc/kubernetes/openshift-workload-pinning",
		"systemctl restart crio", "cpupoold check", "systemctl enable --now cpupoold")
	n.Eventually("exclusive CPUs of du", func() error {
		c, err := n.Find("du", "app")
		if err == nil && (c.Effective.Len() != 2 || c.Effective.Overlaps(reserved)) {
			err = fmt.Errorf("it runs on %s", c.Effective)
		}
		return err
	})
	n.runsOn("platform", reserved)
	n.Withdraw("platform")
	n.Apply(platform())
	n.runsOn("platform", reserved) // a new one, too

	n.follow("systemctl disable --now cpupoold && cpupoold restore",
		"cp node/crio.conf.d/*workload-pinning* /etc/crio/crio.conf.d/",
		"cp node/openshift-workload-pinning /etc/kubernetes/",
		"systemctl restart crio")
	n.runsOn("du", all)
	n.Withdraw("platform")
	n.Apply(platform())
	n.runsOn("platform", reserved)
}

// follow runs commands of the guide in root's home. There kubectl finds the plugin under its own
// name.
func (n *node) follow(commands ...string) {
	n.Helper()
	for _, command := range commands {
		if !strings.Contains(n.guide, "    "+command+"\n") {
			n.Fatalf("the guide lacks the command %q", command)
		}
		n.Run("sh", "-euc", "cd /root; "+strings.ReplaceAll(command, "kubectl cpupool", "kubectl-cpupool"))
	}
}

func (n *node) runsOn(pod string, want cpuset.Set) {
	n.Helper()
	n.Eventually(pod+" on "+want.String(), func() error {
		c, err := n.Find(pod, "app")
		if err == nil && !c.Effective.Equal(want) {
			err = fmt.Errorf("it runs on %s", c.Effective)
		}
		return err
	})
}

func pod(name, cpu string) manifest.Pod {
	return manifest.Pod{Name: name, Namespace: "default", Containers: []manifest.Container{{Name: "app", CPU: cpu, Memory: "32Mi", Limited: true}}}
}

// platform is a management pod as OpenShift's admission leaves it.
func platform() manifest.Pod {
	return manifest.Pod{
		Name: "platform", Namespace: "kube-system", Containers: []manifest.Container{{Name: "app"}},
		Annotations: map[string]string{
			"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`,
			"resources.workload.openshift.io/app":     `{"cpushares":102}`,
		},
	}
}
