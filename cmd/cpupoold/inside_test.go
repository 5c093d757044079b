package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// past is a daemon to which all has happened already.
type past struct {
	started time.Time
	*history.Snapshot
}

func (p past) Started() time.Time         { return p.started }
func (p past) History() *history.Snapshot { return p.Snapshot }
func (past) Status() *inspect.Status      { return &inspect.Status{Version: inspect.Version} }
func (past) Claims() *inspect.Claims      { return &inspect.Claims{Version: inspect.Version} }
func (past) Explain(name string) (*inspect.Explanation, error) {
	return nil, &inspect.NameError{Text: name + " is the past"}
}

// startPast serves a daemon whose only pod has this name, and returns a function that
// ends it.
func startPast(t *testing.T, socket, pod string, started time.Time) (stop func()) {
	t.Helper()
	l := history.New()
	l.Add(history.Event{Kind: history.Placed, Pod: "ran/" + pod, Time: started})
	return serveDaemon(t, socket, past{started, l.Snapshot()})
}

// serveDaemon serves a daemon, and returns a function that ends it.
func serveDaemon(t *testing.T, socket string, d control.Answers) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- control.New(nil, time.Minute, control.ClaimFuncs{}, d, slog.New(slog.DiscardHandler)).Serve(ctx, socket)
	}()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve = %v", err)
		}
	}
}

// reach waits until a server listens.
func reach(t *testing.T, socket string) {
	t.Helper()
	client := control.NewClient(socket)
	for client.Reach(t.Context()) != nil {
		<-time.After(time.Millisecond)
	}
}

// TestFollowSurvivesARestart checks that the command waits for a daemon that restarts,
// prints all events of the next daemon, and ends without an error on ^C.
func TestFollowSurvivesARestart(t *testing.T) {
	socket := control.Socket(t.TempDir())
	begin := time.Unix(1700000000, 0).UTC()
	stop := startPast(t, socket, "du-0", begin)
	client := control.NewClient(socket)
	for client.Reach(t.Context()) != nil {
		<-time.After(time.Millisecond)
	}
	out, in := io.Pipe()
	a := &app{streams: streams{out: in, err: io.Discard}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- a.doEvents(ctx, client, history.Query{}, true, asTable)
		_ = in.Close()
	}()
	lines := bufio.NewScanner(out)
	for _, want := range []string{"ran/du-0", "started again", "ran/du-1"} {
		if !lines.Scan() {
			t.Fatalf("ended before %q: %v", want, <-ended)
		}
		if !strings.Contains(lines.Text(), want) {
			t.Fatalf("printed %q; want %q", lines.Text(), want)
		}
		if want == "ran/du-0" {
			stop()
			stop = startPast(t, socket, "du-1", begin.Add(time.Hour))
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("after ^C: %v", err)
	}
	stop()
}

// TestFollowNeedsADaemon checks that the command returns an error at once if no daemon
// runs at the start.
func TestFollowNeedsADaemon(t *testing.T) {
	a := &app{streams: streams{out: io.Discard, err: io.Discard}}
	if err := a.doEvents(t.Context(), control.NewClient(control.Socket(t.TempDir())), history.Query{}, true, asTable); err == nil {
		t.Error("events --follow without a daemon = no error; want one")
	}
}

// TestStatusIsNarrow checks that no line is wider than the terminal, and that no line has
// control characters, for long names, sets and texts.
func TestStatusIsNarrow(t *testing.T) {
	long := strings.Repeat("ünbroken", 60)
	var odd []int
	for id := 1; id < 256; id += 2 {
		odd = append(odd, id)
	}
	cpus := cpuset.Of(odd...)
	s := &inspect.Status{
		Node:   long,
		Config: inspect.Config{File: "/" + long, Error: "line 1: \x1b[2J" + long, Adapted: []string{long}, Offline: cpus},
		Pools: []inspect.Pool{
			{Name: inspect.Management, Type: long, CPUs: cpus, Containers: 1000},
			{Name: inspect.Shared, CPUs: cpus, Containers: 1000},
			{Name: inspect.Guaranteed, CPUs: cpus, Owned: cpus, Free: cpus, Idle: cpus},
		},
		Containers: []inspect.Container{
			{Namespace: long, Pod: long, Name: long, Pool: inspect.Guaranteed, CPUs: cpus, Mixed: cpus, Exclusive: true, Mode: "partition-isolated", Code: long},
			{Unit: true, Name: long + ".service", Pool: inspect.Management, Type: long, CPUs: cpus, Code: long},
		},
		Auxiliary:  []inspect.Auxiliary{{Kind: "other", Pod: long, Cgroup: "\x1b]0;title\a" + long, CPUs: cpus}},
		Sources:    []inspect.Source{{Name: long, State: "lost"}},
		Problems:   []inspect.Problem{{Pod: long, Container: "\x1b]0;title\a", Code: long, Text: "a text of words " + long}},
		Faults:     []inspect.Fault{{Cgroup: long, Error: long}},
		Waits:      []inspect.Wait{{Cgroup: long, Property: "cpuset.cpus", Reason: long}},
		Writes:     []inspect.Writes{{Via: "file", OK: 1, Failed: 1}},
		LastWrites: []history.Event{{Kind: history.Failed, Pod: long, Via: "file", Property: "cpuset.cpus", Value: cpus.String(), Error: long}},
	}
	var out bytes.Buffer
	w := layout.NewWriter(&out, 80)
	printStatus(w, s)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("characters of a line = %d; want at most 80: %s", n, line)
		}
		if strings.ContainsAny(line, "\x1b\a") {
			t.Errorf("line has control characters: %q", line)
		}
	}
}

// TestRunbooksRun checks that the commands of runbooks exist, with their flags and kinds
// of events.
func TestRunbooksRun(t *testing.T) {
	pages, err := filepath.Glob("../../docs/troubleshooting/runbooks/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("runbooks: %q, %v", pages, err)
	}
	kinds := []history.Kind{
		history.Started, history.Ready, history.Placed, history.Ended, history.Wrote, history.Failed, history.Missed, history.Drift, history.Repaired,
		history.Problem, history.Over, history.Fault, history.Cleared, history.Move, history.Config, history.CPUs, history.Source,
	}
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if !strings.HasPrefix(line, "    ") || len(words) == 0 || words[0] != "cpupoold" {
				continue
			}
			found++
			c, rest, err := (&app{}).command().Find(words[1:])
			if err != nil || !c.HasParent() {
				t.Errorf("%s: %s: unknown command, %v", page, strings.TrimSpace(line), err)
				continue
			}
			err = c.ParseFlags(rest)
			if err == nil {
				err = c.ValidateArgs(c.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: %s: %v", page, strings.TrimSpace(line), err)
			}
			if asked, err := c.Flags().GetStringSlice("kind"); err == nil {
				for _, k := range asked {
					if !slices.Contains(kinds, history.Kind(k)) {
						t.Errorf("%s: %s: unknown events %s", page, strings.TrimSpace(line), k)
					}
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("commands found = %d; want at least 10", found)
	}
}
