package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/codes"
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/document"
	"github.com/cpupoold/cpupoold/internal/explain"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
)

func (a *app) status() *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Print the state of the running daemon: pools, containers, sources, problems, writes",
		Long: `Status asks the running daemon for its state after the last pass: pools with their CPUs and
containers, the reason for each placement, and the protection of exclusive CPUs. It also prints
ResourceClaims, lost sources, problems, the last writes and the configuration in force. Tables are as
wide as the terminal. JSON has all fields, with the topology of the machine: docs/reference/json.md.

With --watch, status prints the state again after each change, until you stop it. With
-o json, each state is one line.`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(c)
	watch := c.Flags().BoolP("watch", "w", false, "print the state again after each change")
	c.RunE = func(c *cobra.Command, _ []string) error {
		client := a.daemon()
		if *watch {
			return a.watchStatus(c.Context(), client, *output)
		}
		s, err := client.Status(c.Context(), 0, control.Wait{})
		if err != nil {
			return err
		}
		return a.show(*output, s, func(w *layout.Writer) { printStatus(w, s) })
	}
	return c
}

// clearScreen clears a terminal (ECMA-48: home, erase, erase what was scrolled away).
const clearScreen = "\x1b[H\x1b[2J\x1b[3J"

// watchStatus prints the status whenever something has happened. A daemon that restarts
// is waited for.
func (a *app) watchStatus(ctx context.Context, client *control.Client, output format) error {
	var after uint64
	wait, shown := control.Wait{}, false
	for {
		s, err := client.Status(ctx, after, wait)
		if err != nil {
			after, wait = 0, control.Wait{}
			if again, err := a.retry(ctx, err, shown); !again {
				return err
			}
			continue
		}
		var picture bytes.Buffer
		if output == asJSON {
			err = document.WriteLine(&picture, s)
		} else {
			picture.WriteString(clearScreen)
			err = layout.Print(&picture, func(w *layout.Writer) { printStatus(w, s) })
		}
		if err != nil {
			return err
		}
		if _, err := a.out.Write(picture.Bytes()); err != nil {
			return err
		}
		after, wait, shown = s.Sequence, control.Wait{For: watchTimeout, Daemon: s.Daemon.Started}, true
		if !pause(ctx, redrawPause) {
			return nil
		}
	}
}

func (a *app) explain() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain POD[/CONTAINER]",
		Short: "Print why a container or unit has its CPUs",
		Long: `Explain asks the running daemon why a container or unit has its CPUs. It prints one sentence,
and what to change for other CPUs. With --details it also prints the rules in the order of
the attempts, other places and the changes that lead there, the desired and the current state
of the cgroup, and the decisions and writes. For the details the daemon repeats its last
decision, and changes nothing. JSON always contains the details.

The argument names a pod, a container, or a systemd unit of the configuration. A pod is POD,
NAMESPACE/POD or its UID. A container is one of these with /CONTAINER, or its ID, or at least
8 characters of its ID. A pod selects all of its containers except the pause container. The
name of the pause container is POD, as in du-0/POD. A ResourceClaim is NAMESPACE/NAME or its
UID, and selects the containers that use it. A pod with the same name takes precedence.`,
		Example: `  cpupoold explain ran/du-0
  cpupoold explain du-0/du --details
  cpupoold explain du-0 -o json
  cpupoold explain gnss.service`,
		Args: cobra.ExactArgs(1),
	}
	output := outputFlag(c)
	details := c.Flags().Bool("details", false, "also print rules, candidates, changes, the cgroup and events")
	c.RunE = func(c *cobra.Command, args []string) error {
		client := a.daemon()
		e, err := client.Explain(c.Context(), args[0])
		if err != nil {
			return err
		}
		return a.show(*output, e, func(w *layout.Writer) { explain.Print(w, e, *details) })
	}
	return c
}

func printStatus(w *layout.Writer, s *inspect.Status) {
	w.Paragraph(headline(s))
	w.Paragraph(passLine(s))
	w.Paragraph(configLine(s))
	for _, x := range s.Config.Adapted {
		w.Paragraph("adapted: " + x)
	}
	if s.System != nil {
		w.Paragraph(systemLine(s.System))
	}
	fmt.Fprintln(w)
	w.Table(poolTable(s))
	w.Section(containerTable(s))
	w.Section(deviceTable(s.Devices))
	w.Section(claimTable(s.Claims))
	for _, line := range auxiliaryLines(s.Auxiliary) {
		w.Paragraph("in pods: " + line)
	}
	fmt.Fprintln(w)
	w.Paragraph(sourceLine(s))
	if s.Audit != nil {
		w.Paragraph(s.Audit.Summary)
	}
	w.Paragraph(writeLine(s))
	for _, e := range s.LastWrites[max(0, len(s.LastWrites)-5):] {
		w.Paragraph("  " + explain.EventLine(&e))
	}
	for _, p := range s.Problems {
		w.Paragraph("problem: " + p.String())
	}
	for _, f := range s.Faults {
		w.Paragraph("not in the desired state: " + f.Cgroup + ": " + f.Error)
	}
	for _, x := range s.Waits {
		w.Paragraph("waits: " + x.Cgroup + " " + x.Property + ": " + x.Reason)
	}
	w.Paragraph(codes.Hint())
}

func headline(s *inspect.Status) string {
	parts := []string{"cpupoold " + s.Daemon.BuildVersion}
	if s.Node != "" {
		parts = append(parts, "on "+s.Node)
	}
	mode := s.Daemon.Mode
	if mode == "observe" {
		mode += " (" + layout.Count(s.Daemon.Owed, "write") + " not made)"
	}
	ready := "ready"
	if !s.Daemon.Ready {
		ready = "not ready: the first pass is not over"
	}
	return strings.Join(append(parts, "mode "+mode, ready, "up "+since(s.Time, s.Daemon.Started)), ", ")
}

func since(now, then time.Time) string {
	if then.Before(time.Unix(1, 0)) {
		return "never"
	}
	return max(now.Sub(then), 0).Round(time.Second).String()
}

func passLine(s *inspect.Status) string {
	good := "desired state reached " + since(s.Time, s.Passes.LastSuccess) + " ago"
	if s.Passes.LastSuccess.Before(time.Unix(1, 0)) {
		good = "desired state not reached so far"
	}
	last := "last pass " + since(s.Time, s.Passes.Last) + " ago"
	if s.Passes.Last.Before(time.Unix(1, 0)) {
		last = "no pass so far"
	}
	text := fmt.Sprintf("%s, %s; %d passes, %d of them failed", last, good, s.Passes.OK+s.Passes.Failed+s.Passes.Unavailable, s.Passes.Failed)
	if n := s.Passes.Unavailable; n > 0 {
		text += fmt.Sprintf(", and %d had no answer from the runtime or systemd", n)
	}
	return text
}

func configLine(s *inspect.Status) string {
	text := "config " + cmp.Or(s.Config.File, "defaults, no file")
	if s.Config.Error != "" {
		text += ": REFUSED, an earlier one is in force: " + s.Config.Error
	}
	parts := []string{text}
	for _, x := range s.Config.Settings {
		if strings.HasPrefix(x.Key, "guaranteed.") || x.Key == "quiet" {
			parts = append(parts, x.Key+" "+x.Value)
		}
	}
	if !s.Config.Offline.IsEmpty() {
		parts = append(parts, "offline CPUs "+s.Config.Offline.String())
	}
	return strings.Join(parts, ", ")
}

func systemLine(p *inspect.SystemPartition) string {
	cpus := "no cpuset"
	if !p.CPUs.IsEmpty() {
		cpus = "cpuset " + p.CPUs.String()
		if !p.Effective.Equal(p.CPUs) {
			cpus += ", effective " + p.Effective.String()
		}
	}
	text := "the daemon places its pods as all others"
	if p.StandsDown {
		text = "the daemon does not place its pods"
	}
	return "system partition " + p.Cgroup + ", " + cpus + ": " + text
}

func poolTable(s *inspect.Status) *layout.Table {
	t := layout.NewTable("POOL", "CPUS", "COUNT", "CONTAINERS", "OWNED", "FREE", "KEPT EMPTY")
	for _, p := range s.Pools {
		empty := p.Idle.Union(p.Resting).Union(p.Parked)
		owned, free := p.Sizes()
		t.Row(inspect.FullPool(p.Name, p.Type), p.CPUs.String(), strconv.Itoa(p.CPUs.Len()), strconv.Itoa(p.Containers), owned, free, empty.String())
	}
	return t
}

func containerTable(s *inspect.Status) *layout.Table {
	t := layout.NewTable("CONTAINER OR UNIT", "POOL", "CPUS", "KEPT BY", "REASON")
	for _, c := range inspect.ByPool(s.Containers) {
		t.Row(c.Full(), inspect.FullPool(c.Pool, c.Type), c.CPUText(), c.Mode, c.Code)
	}
	return t
}

// sourceLine names the sources that are not well.
func sourceLine(s *inspect.Status) string {
	var ill []string
	for _, x := range s.Sources {
		if x.State != "ok" {
			ill = append(ill, x.Name+" "+x.State)
		}
	}
	if len(ill) == 0 {
		return fmt.Sprintf("sources: all %d ok", len(s.Sources))
	}
	return fmt.Sprintf("sources: %s; %d ok", strings.Join(ill, ", "), len(s.Sources)-len(ill))
}

func writeLine(s *inspect.Status) string {
	var parts []string
	for _, x := range s.Writes {
		part := fmt.Sprintf("%s %d", x.Via, x.OK)
		if x.Failed > 0 {
			part += fmt.Sprintf(" (%d refused)", x.Failed)
		}
		parts = append(parts, part)
	}
	text := "writes: " + strings.Join(parts, ", ")
	if len(s.LastWrites) > 0 {
		text += "; the last ones:"
	}
	return text
}

// auxiliaryLines describes the cgroups in pods that belong to no container. A node has a
// monitor for each container, so cgroups of one kind on the same CPUs share a line.
func auxiliaryLines(all []inspect.Auxiliary) (lines []string) {
	names := map[string]string{"monitor": "conmon", "sandbox": "the containers of a pod in one cgroup"}
	type key struct{ kind, cpus string }
	counts := make(map[key]int)
	for _, g := range all {
		counts[key{g.Kind, g.CPUs.String()}]++
	}
	for _, g := range all {
		k := key{g.Kind, g.CPUs.String()}
		n := counts[k]
		delete(counts, k)
		name := cmp.Or(names[g.Kind], "a cgroup of no container")
		switch {
		case n == 1:
			lines = append(lines, fmt.Sprintf("%s on CPUs %s (%s %s)", name, g.CPUs, cmp.Or(g.Pod, "unknown pod"), g.Cgroup))
		case n > 1:
			lines = append(lines, fmt.Sprintf("%d times %s on CPUs %s", n, name, g.CPUs))
		}
	}
	return lines
}

// daemon returns a client of the running daemon. If the configuration has problems, it
// uses the default socket.
func (a *app) daemon() *control.Client {
	c, err := config.Load(a.configPath(), a.overrides, nil)
	if err != nil {
		usual := config.Default()
		_, _ = fmt.Fprintf(a.err, "cpupoold: the configuration has problems (see check); asking the daemon in %s\n", usual.RunDir)
		c = &usual
	}
	return control.NewClient(control.Socket(c.RunDir))
}

// watchTimeout is the maximum time of a request for the next change. redrawPause is the
// minimum time between two outputs. retryPause is the time before a request to a daemon
// that has ended.
const (
	watchTimeout = 20 * time.Second
	redrawPause  = 500 * time.Millisecond
	retryPause   = time.Second
)

// pause waits; it is false when ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// retry reports whether to repeat a request that has failed. A daemon that has answered before can be
// restarting. After ^C there is no error.
func (a *app) retry(ctx context.Context, err error, hasAnswered bool) (again bool, _ error) {
	switch {
	case ctx.Err() != nil:
		return false, nil //nolint:nilerr // a signal is no error
	case !hasAnswered:
		return false, err
	}
	complain(a.err, err)
	return pause(ctx, retryPause), nil
}
