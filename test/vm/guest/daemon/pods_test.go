//go:build guest

package daemon_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// podSpec is a static pod; the manifest is made of it.
type podSpec struct {
	name, namespace string
	annotations     map[string]string
	containers      []containerSpec
}

// containerSpec: cpu and memory are requests; limited makes them limits too.
type containerSpec struct {
	name, cpu, memory string
	limited           bool
	args              string // of the test workload
}

const workImage = "localhost/cpupoold/work:1"

func (p podSpec) manifest() string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  namespace: %s\n  annotations:\n    test: static\n", p.name, p.namespace)
	for key, value := range p.annotations {
		fmt.Fprintf(&b, "    %s: '%s'\n", key, value)
	}
	b.WriteString("spec:\n  terminationGracePeriodSeconds: 1\n  enableServiceLinks: false\n  containers:\n")
	for _, c := range p.containers {
		args := c.args
		if args == "" {
			args = "pause"
		}
		fmt.Fprintf(&b, "  - name: %s\n    image: %s\n    imagePullPolicy: Never\n    args: [%s]\n", c.name, workImage, args)
		if c.cpu == "" {
			continue
		}
		resources := fmt.Sprintf("{cpu: %s, memory: %s}", c.cpu, c.memory)
		fmt.Fprintf(&b, "    resources:\n      requests: %s\n", resources)
		if c.limited {
			fmt.Fprintf(&b, "      limits: %s\n", resources)
		}
	}
	return b.String()
}

// apply has the kubelet run a static pod.
func (n *node) apply(pods ...podSpec) {
	n.Helper()
	for _, p := range pods {
		n.write(filepath.Join(manifests, p.name+".yaml"), p.manifest())
	}
}

func (n *node) remove(name string) {
	n.Helper()
	if err := os.Remove(filepath.Join(manifests, name+".yaml")); err != nil {
		n.Fatal(err)
	}
}

// clearManifests ends all static pods and waits until they are gone.
func (n *node) clearManifests() {
	n.Helper()
	files, err := filepath.Glob(manifests + "/*")
	if err != nil {
		n.Fatal(err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			n.Error(err)
		}
	}
	n.eventually("node without pods", func() error {
		pods, _, err := n.client.List(context.Background())
		if err != nil {
			return err
		}
		for _, p := range pods {
			if p.Ready {
				return fmt.Errorf("pod %s/%s is still there", p.Namespace, p.Name)
			}
		}
		return nil
	})
}

// target are the annotations of a management pod; shares by container name.
func target(shares map[string]string) map[string]string {
	a := map[string]string{"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`}
	for name, value := range shares {
		a["resources.workload.openshift.io/"+name] = `{"cpushares":` + value + `}`
	}
	return a
}
