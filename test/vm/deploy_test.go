//go:build vm

package vm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// installImage puts the daemon's image into the guest's runtime, and deploy/daemonset.yaml, as a static pod, beside the manifests that the
// kubelet watches.
func installImage(t *testing.T, m *vm.VM) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set, err := manifest.ReadDaemonSet(text)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pod, image := filepath.Join(dir, "pod.yaml"), filepath.Join(dir, "image.tar")
	if err := os.WriteFile(pod, set.Pod, 0o644); err != nil {
		t.Fatal(err)
	}
	pack := exec.CommandContext(t.Context(), "go", "-C", "parts/image", "run", ".", "-o", image, "-ref", "localhost/cpupoold/cpupoold:1",
		"-file", buildDaemon(t)+":/usr/local/bin/cpupoold", "-entrypoint", "/usr/local/bin/cpupoold")
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("pack image: %v: %s", err, out)
	}
	for from, to := range map[string]string{pod: "/etc/kubernetes/cpupoold.yaml", image: "/var/tmp/cpupoold-image.tar"} {
		if err := m.CopyTo(t.Context(), from, to); err != nil {
			t.Fatal(err)
		}
	}
	run(t, m, "ctr", "--namespace", "k8s.io", "images", "import", "/var/tmp/cpupoold-image.tar")
}
