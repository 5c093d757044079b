//go:build guest

package daemon_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// required is the runtime's configuration of docs/how-to/require-daemon.md, in the format of
// containerd.
const required = `version = 4

[plugins.'io.containerd.nri.v1.nri'.default_validator]
  enable = true
  required_plugins = ['cpupoold']
  tolerate_missing_plugins_annotation = 'nri.cpupoold.io/tolerate-missing'
`

// TestRequiredPlugin checks that a runtime that requires the plugin creates no container while the daemon is stopped. Pods that tolerate
// it are excepted, and the daemon's own pod is one of them. A start of the daemon is enough for the others.
func TestRequiredPlugin(t *testing.T) {
	n := newNode(t)
	n.require()
	tolerant := manifest.Pod{
		Name: "tolerant", Namespace: "kube-system", Annotations: map[string]string{"nri.cpupoold.io/tolerate-missing": "true"},
		Containers: []manifest.Container{{Name: "app"}},
	}
	n.apply(plain("first"), tolerant)
	n.eventually("container of a pod that tolerates it", func() error { _, err := n.find("tolerant", "app"); return err })
	n.turnedAway("first")

	n.startDaemon(pools)
	n.placed(want{pod: "first", container: "app", cpus: "2-3"}, want{pod: "tolerant", container: "app", cpus: "2-3"})
	n.stopDaemon()

	n.apply(plain("second"))
	n.turnedAway("second")
	n.still("the end of the daemon", want{pod: "first", container: "app", cpus: "2-3"})
	n.write(configFile, strings.Replace(pools, "[kube-system]", "[kube-system, cpupoold]", 1))
	n.startContainer()
	n.placed(want{pod: "second", container: "app", cpus: "2-3"}, want{pod: "cpupoold", container: "cpupoold", cpus: "0-1"})
}

// plain is a pod that tolerates nothing.
func plain(name string) manifest.Pod {
	return manifest.Pod{Name: name, Namespace: "default", Containers: []manifest.Container{{Name: "app"}}}
}

// require has the runtime require the plugin until the end of the test.
func (n *node) require() {
	n.Helper()
	const file = "/etc/containerd/conf.d/required.toml"
	restart := func() {
		n.Helper()
		n.run("systemctl", "restart", "containerd")
		n.eventually("runtime", func() error { _, err := n.containers(); return err })
	}
	n.write(file, required)
	n.Cleanup(func() {
		if err := os.Remove(file); err != nil {
			n.Error(err)
		}
		restart()
	})
	restart()
}

// turnedAway waits until the kubelet logs that a pod's container lacks the required plugin.
func (n *node) turnedAway(pod string) {
	n.Helper()
	n.eventually("refusal of "+pod, func() error {
		log, _ := n.try("journalctl", "--no-pager", "-o", "cat", "-u", "kubelet", "--grep", "required plugin") // an error if no line matches
		for line := range strings.Lines(log) {
			if strings.Contains(line, pod+"-node") && strings.Contains(line, "cpupoold") && strings.Contains(line, "not present") {
				return nil
			}
		}
		return errors.New("the kubelet's log has no such line")
	})
	ctx, cancel := call()
	defer cancel()
	pods, containers, err := n.client.List(ctx)
	if err != nil {
		n.Fatal(err)
	}
	for _, p := range pods {
		for _, c := range containers {
			if c.PodID == p.ID && p.Name == pod+"-node" {
				n.Errorf("pod %s has had a container: %+v; want none", pod, c)
			}
		}
	}
}
