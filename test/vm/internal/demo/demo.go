// Package demo shows cpupoold at work on a real node: pods of every kind and a systemd unit, and what the daemon says about where each of
// them runs next to what the kernel says.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// Run boots a node, runs cpupoold and pods of every kind in it, and prints who runs where, in lines of at most 140 characters. If the
// kernel does not say what cpupoold says, that is an error. Then, unless it is nil, is called while the node is still there. The
// configuration's topology and kind of guest are the demo's own.
func Run(ctx context.Context, config vm.Config, out io.Writer, then func(*vm.VM) error) (err error) {
	p := newProgress(out)
	p.step("boot a node with containerd and a kubelet (10 s on two idle cores; the first time builds all of that, for many minutes)")
	config.Node, config.Topology = true, topology
	m, err := vm.Boot(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	s := scene{m: m, progress: p, out: out}
	shown := s.show(ctx)
	if shown != nil {
		shown = withJournal(ctx, m, shown)
	}
	if then != nil {
		return errors.Join(shown, then(m))
	}
	return shown
}

// scene is a node and who watches it.
type scene struct {
	*progress

	m   *vm.VM
	out io.Writer
}

func (s *scene) show(ctx context.Context) error {
	s.step("build cpupoold and copy it into the node with its unit and a configuration (10 s; the first time 1 min)")
	if err := install(ctx, s.m); err != nil {
		return err
	}
	s.step("systemctl start cpupoold %s (10 s)", unit)
	if _, err := s.m.Run(ctx, "systemctl", "start", "cpupoold", unit); err != nil {
		return err
	}
	pods := append(manifest.EveryKind(), exclusive(large, "6"))
	s.step("have the kubelet start %d static pods of all kinds (2 min)", len(pods))
	if _, err := s.settle(ctx, pods); err != nil {
		return err
	}
	// Only when the others have theirs is it certain who gets none.
	pods = append(pods, exclusive(late, "3"))
	s.step("start a pod that asks for more CPUs than are left (30 s)")
	rows, err := s.everybody(ctx, pods)
	if err != nil {
		return err
	}
	if err := s.reload(ctx, rows); err != nil {
		return err
	}
	return s.gather(ctx, pods)
}

// everybody starts pods, and shows them all and what two of them have been told.
func (s *scene) everybody(ctx context.Context, pods []manifest.Pod) ([]row, error) {
	rows, problems, err := s.look(ctx, pods)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(s.out, "\n%s\n%s\n%s", table(rows), verdict(rows), refusals(problems))
	if err := disagreement(rows); err != nil {
		return nil, err
	}
	if err := aligned(rows, large); err != nil {
		return nil, err
	}
	return rows, s.told(ctx, rows)
}

// look waits until a node with these pods and no others is at rest, and joins what cpupoold and the kernel say.
func (s *scene) look(ctx context.Context, pods []manifest.Pod) ([]row, []pools.Problem, error) {
	preview, err := s.settle(ctx, pods)
	if err != nil {
		return nil, nil, err
	}
	kernel, err := observe(ctx, s.m)
	if err != nil {
		return nil, nil, err
	}
	return compare(preview.Plan, kernel), preview.Plan.Problems, nil
}

// reload has systemd write all its units' properties again, which undoes cpusets that were only written to files.
func (s *scene) reload(ctx context.Context, before []row) error {
	s.step("systemctl daemon-reload")
	if _, err := s.m.Run(ctx, "systemctl", "daemon-reload"); err != nil {
		return err
	}
	kernel, err := observe(ctx, s.m)
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
	s.step("nobody has moved: all of the above is still true of all %d", len(after))
	return nil
}

// withJournal adds to err what the daemon and the kubelet have logged last.
func withJournal(ctx context.Context, m *vm.VM, err error) error {
	journal, jerr := m.Run(context.WithoutCancel(ctx), "journalctl", "--no-pager", "-n", "40", "-u", "cpupoold", "-u", "kubelet")
	return errors.Join(fmt.Errorf("%w; the journal ends with:\n%s", err, journal), jerr)
}
