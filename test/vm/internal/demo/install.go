package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

const module = "github.com/cpupoold/cpupoold"

// configuration is the one that docs/tutorials/first-node.md shows.
const configuration = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0-1
  namespaces: [kube-system]
staticPods: [kube-system]
shared:
  cpus: 2-3
guaranteed:
  cpus: 4-15
  onRefusal: shared
units:
  du.service: {cpus: 2}
`

// topology is the machine of that configuration: two NUMA nodes of four cores with two threads.
const (
	topology = "16c2s2t"
	threads  = 2 // of each core
)

// unit is a service with exclusive CPUs. It logs the CPUs in its environment.
const unit = "du.service"

const unitFile = `[Unit]
After=cpupoold.service

[Service]
EnvironmentFile=-/run/cpupoold/units/%n.env
ExecStart=sh -c 'echo "CPUPOOL_CPUS=$CPUPOOL_CPUS CPUPOOL_NODES=$CPUPOOL_NODES"; exec sleep infinity'
`

// program is the name of the compiled daemon in its directory.
const program = "cpupoold"

// compile compiles the daemon into dir. It has a low priority, so that it uses the CPUs that the disk of the node leaves idle.
func compile(ctx context.Context, dir string) error {
	_, err := goCommand(ctx, "nice", "-n", "10", "go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, program), module+"/cmd/cpupoold")
	return err
}

// install puts the daemon of dir, its unit, a configuration and the service into the guest. systemd reads new units when they start.
func install(ctx context.Context, m *vm.VM, dir string) error {
	config, service := filepath.Join(dir, "config.yaml"), filepath.Join(dir, unit)
	root, err := goCommand(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(config, []byte(configuration), 0o644), os.WriteFile(service, []byte(unitFile), 0o644)); err != nil {
		return err
	}
	for _, file := range [][2]string{
		{filepath.Join(dir, program), "/usr/local/bin/cpupoold"},
		{filepath.Join(root, "systemd", "cpupoold.service"), "/etc/systemd/system/cpupoold.service"},
		{config, "/etc/cpupoold/config.yaml"},
		{service, "/etc/systemd/system/" + unit},
	} {
		if err := m.CopyTo(ctx, file[0], file[1]); err != nil {
			return err
		}
	}
	return nil
}

// goCommand runs a go command for the guest's platform and returns its output, without the newline at the end.
func goCommand(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}

// apply makes the kubelet run these static pods and no others. Pods that run already stay as they are.
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
	const swap = `cd /etc/kubernetes
for old in manifests/*; do [ -e "new/${old##*/}" ] || rm -f "$old"; done
mv new/* manifests/
rmdir new`
	_, err = m.Run(ctx, "sh", "-ec", swap)
	return err
}
