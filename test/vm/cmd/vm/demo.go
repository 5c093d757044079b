package main

import (
	"context"
	"fmt"
	"io"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/demo"
)

// showDemo runs the demo on a node, and a shell there if stay is set. Without a chosen runtime, only the kubelet of the node is compiled.
func showDemo(ctx context.Context, config vm.Config, stay bool, stdin io.Reader, stdout, stderr io.Writer) error {
	if config.Runtime == (vm.Runtime{}) && config.Suite == "" {
		config.Runtime.Name, config.Suite = "containerd-debian", "forky"
	}
	if stay {
		return demo.Run(ctx, config, stdout, func(m *vm.VM) error { return openShell(m, stdin, stdout, stderr) })
	}
	if err := demo.Run(ctx, config, stdout, nil); err != nil {
		return err
	}
	_, err := fmt.Fprintln(stdout, `
Go on with `+"`make vm-shell`"+`, a shell in a node without cpupoold, or `+"`go run ./test/vm/cmd/vm demo -shell`"+`, a shell in the node of this demo.`)
	return err
}
