// Package demo runs cpupoold on a real node with pods of every kind and a systemd unit. It prints the CPUs of each of them by the daemon and by
// the kernel.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// Run boots a node, and runs cpupoold and pods of every kind in it. Run prints the CPUs of each container by cpupoold and by the kernel, in lines
// of at most 140 characters. Run returns an error if both differ. Then, unless it is nil, is called while the node still runs. The
// topology and the kind of guest of the configuration are the demo's own.
func Run(ctx context.Context, config vm.Config, out io.Writer, then func(*vm.VM) error) (err error) {
	config.Node, config.Topology = true, topology
	disk, snapshot, err := config.Made()
	if err != nil {
		return err
	}
	p := newProgress(out, stages(disk, snapshot))
	defer p.end()
	m, program, err := bootAndCompile(ctx, config, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(), os.RemoveAll(program)) }()
	s := scene{m: m, daemon: newDaemon(m), progress: p, out: out}
	defer s.daemon.CloseIdleConnections()
	shown := s.show(ctx, program)
	if shown != nil {
		shown = withJournal(ctx, m, shown)
	}
	if then != nil {
		return errors.Join(shown, then(m))
	}
	return shown
}

// bootAndCompile makes the disk of the node and boots it. It compiles cpupoold at the same time, into a directory that the caller removes.
func bootAndCompile(ctx context.Context, config vm.Config, p *progress) (m *vm.VM, dir string, err error) {
	if dir, err = os.MkdirTemp("", "cpupoold-demo-"); err != nil {
		return nil, "", err
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return compile(ctx, dir) })
	both.Go(func() (err error) {
		p.next()
		if err := config.Make(ctx); err != nil {
			return err
		}
		p.next()
		m, err = vm.Boot(ctx, config)
		return err
	})
	if err := both.Wait(); err != nil {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
		return nil, "", errors.Join(err, os.RemoveAll(dir))
	}
	return m, dir, nil
}

// scene is a running node with the progress of the demo.
type scene struct {
	*progress

	m      *vm.VM
	daemon *daemon
	out    io.Writer
}

// show runs the demo on the node. dir has the compiled daemon.
func (s *scene) show(ctx context.Context, dir string) error {
	s.next()
	if err := install(ctx, s.m, dir); err != nil {
		return err
	}
	if _, err := s.m.Run(ctx, "systemctl", "start", "cpupoold", unit); err != nil {
		return err
	}
	s.next()
	pods := append(manifest.EveryKind(), exclusive(large, "6"))
	if err := s.settle(ctx, pods); err != nil {
		return err
	}
	// The pod without CPUs starts last, so that the others have theirs.
	s.next()
	pods = append(pods, exclusive(late, "3"))
	rows, err := s.startAll(ctx, pods)
	if err != nil {
		return err
	}
	if err := s.reload(ctx, rows); err != nil {
		return err
	}
	return s.gather(ctx, pods)
}

// startAll starts pods, shows their CPUs, and shows how two of them read their own
// CPUs.
func (s *scene) startAll(ctx context.Context, pods []manifest.Pod) ([]row, error) {
	if err := apply(ctx, s.m, pods); err != nil {
		return nil, err
	}
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
	return rows, s.showInside(ctx, rows)
}

// look waits until a node with these pods and no others is idle, and joins cpupoold's plan with the kernel's
// values.
func (s *scene) look(ctx context.Context, pods []manifest.Pod) ([]row, []pools.Problem, error) {
	preview, err := s.rest(ctx, pods)
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
	s.next()
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
	s.detail("the kernel reports the same CPUs for all %d containers and units", len(after))
	return nil
}

// withJournal adds the last log lines of the daemon and the kubelet to err.
func withJournal(ctx context.Context, m *vm.VM, err error) error {
	journal, jerr := m.Run(context.WithoutCancel(ctx), "journalctl", "--no-pager", "-n", "40", "-u", "cpupoold", "-u", "kubelet")
	return errors.Join(fmt.Errorf("%w; the journal ends with:\n%s", err, journal), jerr)
}
