// Command vm builds the test machine's images and boots it, for people and for make.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/cpupoold/cpupoold/test/vm"
)

const usage = `usage: vm image                          install what is missing, build all images and the node's snapshot
       vm shell [flags]                  boot a machine and open a shell in it; it ends with the shell
       vm demo [-shell] [flags]          boot a node, run cpupoold and pods of every kind in it, show their CPUs
       vm run [flags] -- command [arg]   boot a machine, run one command in it, exit with its status
flags:`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if err == nil {
		return
	}
	if status, ok := errors.AsType[exitStatus](err); ok {
		os.Exit(int(status))
	}
	fmt.Fprintln(os.Stderr, "vm:", err)
	os.Exit(2)
}

// exitStatus is the status of a command in the guest that has printed its error.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		args = []string{""}
	}
	var config vm.Config
	var kernelArgs string
	flags := flag.NewFlagSet("vm", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&config.Topology, "topology", "8c2n", "4c1n, 8c2n, 16c2s2t, 32c4n or 16c2d4l; the demo has its own")
	plain := flags.Bool("plain", false, "without container runtime and kubelet")
	flags.StringVar(&config.Suite, "suite", "", "of Debian: bookworm, trixie (the default) or forky")
	flags.StringVar(&config.Runtime.Name, "runtime", "", "containerd, containerd-1.7, containerd-crun, containerd-debian (with -suite forky; the demo's own), crio-runc or crio-crun")
	flags.BoolVar(&config.Runtime.NRIOff, "nri-off", false, "turn NRI off in containerd 2")
	flags.BoolVar(&config.Runtime.Cgroupfs, "cgroupfs", false, "containerd 2 and kubelet make cgroups without systemd")
	flags.BoolVar(&config.Runtime.PodEvents, "pod-events", false, "turn CRI-O's events on")
	flags.BoolVar(&config.Cold, "cold", false, "boot a node from power-on instead of its snapshot")
	flags.IntVar(&config.Memory, "memory", 2048, "in MiB")
	stay := flags.Bool("shell", false, "after the demo, open a shell in its node")
	flags.StringVar(&kernelArgs, "kernel-args", "", "added to the kernel's command line")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	config.Node = !*plain
	config.KernelArgs = strings.Fields(kernelArgs)
	switch args[0] {
	case "image":
		return vm.BuildImages(ctx, config.Topology)
	case "shell":
		return shell(ctx, config, stdin, stdout, stderr)
	case "demo":
		return showDemo(ctx, config, *stay, stdin, stdout, stderr)
	case "run":
		return command(ctx, config, flags.Args(), vm.Files{Stdin: stdin, Stdout: stdout, Stderr: stderr})
	}
	flags.Usage()
	return fmt.Errorf("find subcommand %q: none of image, shell, demo, run", args[0])
}

func shell(ctx context.Context, config vm.Config, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	m, err := vm.Boot(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return openShell(m, stdin, stdout, stderr)
}

func openShell(m *vm.VM, stdin io.Reader, stdout, stderr io.Writer) error {
	line := m.SSHCommand()
	fmt.Fprintf(stderr, "console: %s\nmore shells: %s\n", m.Console(), strings.Join(line, " "))
	cmd := exec.Command(line[0], line[1:]...) // not ended by ctx: an interrupt is for the program in the guest
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	if err := cmd.Run(); err != nil {
		if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() != 255 {
			return nil // the status of the last command that was typed
		}
		return fmt.Errorf("run ssh: %w", err)
	}
	return nil
}

func command(ctx context.Context, config vm.Config, cmd []string, files vm.Files) (err error) {
	if len(cmd) == 0 {
		return errors.New("run: no command given")
	}
	m, err := vm.Boot(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	err = m.RunWith(ctx, files, cmd...)
	if exit := new(ssh.ExitError); errors.As(err, &exit) {
		return exitStatus(exit.ExitStatus())
	}
	return err
}
