//go:build guest

package daemon_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// apply has the kubelet run a static pod.
func (n *node) apply(pods ...manifest.Pod) {
	n.Helper()
	for _, p := range pods {
		text, err := p.YAML()
		if err != nil {
			n.Fatal(err)
		}
		n.write(filepath.Join(manifests, p.Name+".yaml"), string(text))
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
