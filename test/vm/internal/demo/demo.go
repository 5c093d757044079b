// Package demo shows cpupoold at work on a real node: pods of every kind, and what the daemon says about each of their containers next
// to what the kernel says.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// Run boots a node, runs cpupoold and pods of every kind in it, and prints who runs where, in lines of at most 140 characters. If the
// kernel does not say what cpupoold says, that is an error. Then, unless it is nil, is called while the node is still there.
func Run(ctx context.Context, config vm.Config, out io.Writer, then func(*vm.VM) error) (err error) {
	p := newProgress(out)
	p.step("boot a node with containerd and a kubelet (10 s on two idle cores; the first time builds all of that, for many minutes)")
	m, err := vm.Boot(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	shown := show(ctx, m, p, out)
	if then != nil {
		return errors.Join(shown, then(m))
	}
	return shown
}

func show(ctx context.Context, m *vm.VM, p *progress, out io.Writer) error {
	p.step("build cpupoold and copy it into the node with its unit and a configuration (10 s; the first time 1 min)")
	if err := install(ctx, m); err != nil {
		return err
	}
	p.step("systemctl start cpupoold (10 s)")
	if _, err := m.Run(ctx, "systemctl", "start", "cpupoold"); err != nil {
		return withJournal(ctx, m, err)
	}
	kinds := manifest.EveryKind()
	p.step("have the kubelet start %d static pods of all kinds (2 min)", len(kinds))
	if _, err := settle(ctx, m, p, kinds); err != nil {
		return withJournal(ctx, m, err)
	}
	// Only when the others have theirs is it certain who gets none.
	kinds = append(kinds, tooMuch())
	p.step("start a pod that asks for more CPUs than are left (30 s)")
	preview, err := settle(ctx, m, p, kinds)
	if err != nil {
		return withJournal(ctx, m, err)
	}
	p.step("read cgroups and processes")
	kernel, err := observe(ctx, m)
	if err != nil {
		return err
	}
	rows := compare(preview.Plan, kernel)
	fmt.Fprintf(out, "\n%s\n%s\n", table(rows), verdict(rows))
	fmt.Fprint(out, refusals(preview.Plan.Problems))
	if err := disagreement(rows); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return reload(ctx, m, p, rows)
}

// tooMuch returns a pod for which manifest.EveryKind leaves too few guaranteed CPUs.
func tooMuch() manifest.Pod {
	return manifest.Pod{
		Name: "toomuch", Namespace: "default",
		Containers: []manifest.Container{{Name: "app", CPU: "2", Memory: "20Mi", Limited: true}},
	}
}

// reload has systemd write all its units' properties again, which undoes cpusets that were only written to files.
func reload(ctx context.Context, m *vm.VM, p *progress, before []row) error {
	p.step("systemctl daemon-reload")
	if _, err := m.Run(ctx, "systemctl", "daemon-reload"); err != nil {
		return err
	}
	kernel, err := observe(ctx, m)
	if err != nil {
		return err
	}
	after := make([]row, len(before))
	for i, r := range before {
		r.kernel = kernel[r.ID]
		after[i] = r
	}
	if err := disagreement(after); err != nil {
		return fmt.Errorf("after daemon-reload: %w", err)
	}
	p.step("nobody has moved: all of the above is still true of all %d", len(after))
	return nil
}

// withJournal adds to err what the daemon and the kubelet have logged last.
func withJournal(ctx context.Context, m *vm.VM, err error) error {
	journal, jerr := m.Run(context.WithoutCancel(ctx), "journalctl", "--no-pager", "-n", "40", "-u", "cpupoold", "-u", "kubelet")
	return errors.Join(fmt.Errorf("%w; the journal ends with:\n%s", err, journal), jerr)
}
