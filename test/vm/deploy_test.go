//go:build vm

package vm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// installImage puts the daemon's image into the guest's runtime. It installs the DaemonSets of deploy/daemonset.yaml and
// deploy/uninstall/restore.yaml as static pods, next to the manifests that the kubelet watches.
func installImage(t *testing.T, m *vm.VM) {
	t.Helper()
	dir := t.TempDir()
	daemon, image := staticPod(t, dir, "config.yaml", "daemonset.yaml"), filepath.Join(dir, "image.tar")
	restore := staticPod(t, dir, "config.yaml", "daemonset.yaml", "uninstall/restore.yaml")
	packImage(t, buildDaemon(t), image)
	for from, to := range map[string]string{
		daemon:  "/etc/kubernetes/cpupoold.yaml",
		restore: "/etc/kubernetes/cpupoold-restore.yaml",
		image:   "/var/tmp/cpupoold-image.tar",
	} {
		if err := m.CopyTo(t.Context(), from, to); err != nil {
			t.Fatal(err)
		}
	}
	run(t, m, "ctr", "--namespace", "k8s.io", "images", "import", "/var/tmp/cpupoold-image.tar")
}

// staticPod writes the last DaemonSet of files below deploy/ into dir, as a static pod.
func staticPod(t *testing.T, dir string, files ...string) string {
	t.Helper()
	var text []byte
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join("../../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		text = slices.Concat(text, []byte("\n---\n"), data)
	}
	set, err := manifest.ReadDaemonSet(text)
	if err != nil {
		t.Fatal(err)
	}
	pod := filepath.Join(dir, strings.ReplaceAll(files[len(files)-1], "/", "-"))
	if err := os.WriteFile(pod, set.Pod, 0o644); err != nil {
		t.Fatal(err)
	}
	return pod
}

// packImage makes the image as `make image` does, with the daemon for the guest's architecture. The file of the other architecture is no
// program, so the runtime must choose.
func packImage(t *testing.T, daemon, image string) {
	t.Helper()
	dir := t.TempDir()
	for architecture, program := range map[string]func(to string) error{
		"amd64": func(to string) error { return os.Link(daemon, to) },
		"arm64": func(to string) error { return os.WriteFile(to, []byte("not for this machine"), 0o644) },
	} {
		if err := os.Mkdir(filepath.Join(dir, architecture), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := program(filepath.Join(dir, architecture, "cpupoold")); err != nil {
			t.Fatal(err)
		}
	}
	pack := exec.CommandContext(t.Context(), "go", "-C", "../../deploy/image", "run", ".", "-o", image, "-ref", "localhost/cpupoold/cpupoold:1",
		"-from", dir, "-entrypoint", "cpupoold")
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("pack image: %v: %s", err, out)
	}
}
