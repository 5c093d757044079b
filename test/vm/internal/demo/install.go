package demo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

const module = "github.com/cpupoold/cpupoold"

// configuration is that of the README.
const configuration = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0-1
  namespaces: [kube-system]
shared:
  cpus: 2-3
guaranteed:
  cpus: 4-7
`

// install puts the daemon, its unit and a configuration into the guest.
func install(ctx context.Context, m *vm.VM) (err error) {
	dir, err := os.MkdirTemp("", "cpupoold-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, config := filepath.Join(dir, "cpupoold"), filepath.Join(dir, "config.yaml")
	if _, err := goCommand(ctx, "build", "-trimpath", "-ldflags=-s -w", "-o", binary, module+"/cmd/cpupoold"); err != nil {
		return err
	}
	root, err := goCommand(ctx, "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	if err := os.WriteFile(config, []byte(configuration), 0o644); err != nil {
		return err
	}
	for _, file := range [][2]string{
		{binary, "/usr/local/bin/cpupoold"},
		{filepath.Join(root, "systemd", "cpupoold.service"), "/etc/systemd/system/cpupoold.service"},
		{config, "/etc/cpupoold/config.yaml"},
	} {
		if err := m.CopyTo(ctx, file[0], file[1]); err != nil {
			return err
		}
	}
	_, err = m.Run(ctx, "systemctl", "daemon-reload")
	return err
}

// goCommand runs the go command for the guest's platform and returns what it prints, without the newline at the end.
func goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}

// apply has the kubelet run static pods. Those that it runs already stay as they are.
func apply(ctx context.Context, m *vm.VM, pods []manifest.Pod) error {
	dir, err := os.MkdirTemp("", "cpupoold-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, p := range pods {
		text, err := p.YAML()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, p.Name+".yaml"), text, 0o644); err != nil {
			return err
		}
	}
	if err := m.CopyTo(ctx, dir, "/etc/kubernetes/new"); err != nil {
		return err
	}
	// Renamed into their place, so that the kubelet never sees half a file.
	_, err = m.Run(ctx, "sh", "-c", "mv /etc/kubernetes/new/* /etc/kubernetes/manifests/")
	return err
}
