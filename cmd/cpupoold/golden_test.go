package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/explain"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// golden compares text with two files: as in a pipe, and on a terminal of 80 columns, which
// lines may exceed only by addresses.
func golden(t *testing.T, file string, text func(io.Writer) error) {
	t.Helper()
	const columns = 80
	for file, columns := range map[string]int{file + ".txt": 0, file + "-80.txt": columns} {
		var out bytes.Buffer
		w := layout.NewWriter(&out, columns)
		if err := errors.Join(text(w), w.Flush()); err != nil {
			t.Fatal(err)
		}
		file, got := filepath.Join("testdata", file), out.String()
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || string(want) != got {
			t.Errorf("%s: %v; want\n%s\ngot\n%s", file, err, want, got)
		}
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); columns > 0 && n > columns && !strings.Contains(line, "https://") {
				t.Errorf("%s: characters of a line = %d; want fewer: %s", file, n, line)
			}
		}
	}
}

func owner() inspect.Container {
	return inspect.Container{Namespace: "ran", Pod: "du-0", PodUID: "u", Name: "du", ID: "i", State: "running", Pool: inspect.Guaranteed, CPUs: cpuset.Of(4, 5), Exclusive: true,
		Mode: "partition-isolated", Code: "Exclusive", Reason: "2 whole CPUs in a Guaranteed pod", Cgroup: "kubepods.slice/kubepods-podu.slice/cri-containerd-i.scope"}
}

// claim is a claim of two containers, with an offline CPU and a hostile name.
func claim() inspect.Claim {
	return inspect.Claim{
		UID: "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0", Namespace: "ran", Name: "cpus\x1b[31m", Pod: "ran/du-0", PodUID: "u", Containers: []string{"du", "phy"},
		CPUs: cpuset.Of(8, 9), Away: cpuset.Of(11), Code: "Claim", Reason: "3 CPUs, as the scheduler has allocated",
		Parts: []inspect.ClaimPart{{Request: "cpus", Device: "numa0", CPUs: cpuset.Of(8, 9, 11)}},
	}
}

func TestExplainGolden(t *testing.T) {
	c := owner()
	e := &inspect.Explanation{Asked: "du-0", Subjects: []inspect.Subject{
		{
			Container: c, Sentence: "container du of du-0 has exclusive CPUs of the guaranteed pool, because it requests 2 whole CPUs in a Guaranteed pod.",
			Rules: []inspect.Rule{
				{Name: "WorkloadType", Statement: "the pod asks for a workload type and may have it", Answer: "no annotation target.workload.openshift.io/<type>"},
				{Name: "Exclusive", Statement: "whole CPUs in a Guaranteed pod", Met: true, Answer: c.Reason},
			},
			Candidates: []inspect.Candidate{
				{Part: "NUMA node 0", Why: "rejected: 0 of 4 CPUs of the guaranteed pool are free"},
				{Part: "NUMA node 1", Node: 1, Free: cpuset.Of(4, 5, 6, 7), Has: true, Why: "it has CPUs here, and keeps them"},
			},
			Changes: []inspect.Change{{What: "CPU requests below the limits (a Burstable pod)", Then: "shared pool, CPUs 2-3"}},
			Wanted:  &inspect.Wanted{CPUs: c.CPUs, Unlimited: true},
			Kernel:  &inspect.Kernel{Cgroup: c.Cgroup, CPUs: "4-5", Effective: "4-5", Partition: "isolated", MemsEffective: "0-1", Weight: "79", Max: "max 100000"},
			Waits:   []inspect.Wait{{Property: "cpuset.mems", Reason: "it is bound when it runs on its CPUs"}},
		},
		{
			Container: inspect.Container{Unit: true, Name: "gnss.service", Pool: inspect.Shared, CPUs: cpuset.Of(2, 3), Code: "Refused", Reason: "requests 9 whole CPUs, but 2 of 4 CPUs of the guaranteed pool are free; runs in the shared pool until enough CPUs are free", Refused: true},
			Sentence:  "unit gnss.service runs in the shared pool, because it requests 9 whole CPUs, but 2 of 4 CPUs of the guaranteed pool are free.",
			Fix:       "request fewer CPUs",
			Rules:     []inspect.Rule{{Name: "Unit", Statement: "the configuration names the unit", Met: true, Answer: "9 whole CPUs"}},
			Problems:  []inspect.Problem{{Unit: "gnss.service", Code: "Refused", Text: "requests 9 whole CPUs"}},
		},
		{
			Container: inspect.Container{Namespace: "ran", Pod: "du-0", PodUID: "u", Name: "phy", State: "running", Pool: inspect.Guaranteed, CPUs: cpuset.Of(8, 9), Claims: []string{"ran/cpus"}, Code: "Claim", Reason: "runs on the CPUs of 1 ResourceClaim"},
			Sentence:  "container phy of du-0 runs on exclusive CPUs that containers of its pod share, because it uses ResourceClaim cpus.",
			Rules:     []inspect.Rule{{Name: "Claim", Statement: "it uses a ResourceClaim of which it gets CPUs", Met: true, Answer: "runs on the CPUs of 1 ResourceClaim"}},
			Claims:    []inspect.Claim{claim()},
			Problems:  []inspect.Problem{{Claim: "ran/cpus", PodUID: "u", Code: "Offline", Text: "CPU 11 of its own is offline, and kept for it"}},
		},
	}}
	golden(t, "explain", func(w io.Writer) error {
		return layout.Print(w, func(w *layout.Writer) {
			explain.Print(w, e, false)
			fmt.Fprintln(w, "----")
			explain.Print(w, e, true)
		})
	})
}

// livingStatus is a state that is always the same.
func livingStatus(sequence uint64) *inspect.Status {
	now := time.Unix(1700000000, 0).UTC()
	return &inspect.Status{
		Version: inspect.Version, Sequence: sequence, Time: now, Node: "edge-1",
		Daemon: inspect.Daemon{BuildVersion: "v1.0.0", Mode: "enforce", Ready: true, Started: now.Add(-time.Hour)},
		Config: inspect.Config{File: "/etc/cpupoold/config.yaml", Settings: []inspect.Setting{{Key: "guaranteed.cpus", Value: "4-7"}}},
		Passes: inspect.Passes{OK: 279, Failed: 2, Unavailable: 149, Last: now.Add(-time.Minute), LastSuccess: now.Add(-time.Minute)},
		Pools: []inspect.Pool{
			{Name: inspect.Management, Type: "management", CPUs: cpuset.Of(0, 1), Containers: 1},
			{Name: inspect.Shared, CPUs: cpuset.Of(2, 3)},
			{Name: inspect.Guaranteed, CPUs: cpuset.Of(4, 5, 6, 7), Owned: cpuset.Of(4, 5), Free: cpuset.Of(6, 7), Containers: 1},
			{Name: inspect.ClaimedPool, CPUs: cpuset.Range(8, 10), Owned: cpuset.Of(8, 9), Free: cpuset.Of(10), Containers: 2},
		},
		Devices:    []inspect.ClaimDevice{{Name: "numa0", CPUs: cpuset.Range(8, 10), Free: cpuset.Of(10), Step: 1}},
		Claims:     []inspect.Claim{claim()},
		Containers: []inspect.Container{owner(), {Namespace: "kube-system", Pod: "dns", Name: "coredns", Pool: inspect.Management, Type: "management", CPUs: cpuset.Of(0, 1), Code: "Management"}},
		Auxiliary: []inspect.Auxiliary{
			{Kind: "monitor", Pod: "ran/du-0", Cgroup: "kubepods.slice/kubepods-podu.slice/crio-conmon-c.scope", CPUs: cpuset.Of(2, 3)},
			{Kind: "monitor", Pod: "ran/cu-0", Cgroup: "kubepods.slice/kubepods-podv.slice/crio-conmon-d.scope", CPUs: cpuset.Of(2, 3)},
			{Kind: "sandbox", Pod: "ran/vm-0", Cgroup: "kubepods/podw/kata_w", CPUs: cpuset.Of(4, 5), Exclusive: true},
			{Kind: "other", Cgroup: "kubepods/podx/left", CPUs: cpuset.Of(2, 3)},
		},
		System:  &inspect.SystemPartition{Cgroup: "kubepods.slice/kubepods-system.slice", CPUs: cpuset.Of(0, 1), Effective: cpuset.Of(0), StandsDown: true},
		Sources: []inspect.Source{{Name: "cri-events", State: "ok"}, {Name: "nri", State: "absent"}},
		Writes:  []inspect.Writes{{Via: "file", OK: 12, Failed: 1}},
		Problems: []inspect.Problem{
			{Pod: "ran/cu-0", Container: "cu", Code: "Refused", Text: "requests 9 whole CPUs"},
			{Claim: "ran/cpus", PodUID: "u", Code: "Offline", Text: "CPU 11 of its own is offline, and kept for it"},
		},
	}
}

func TestStatusGolden(t *testing.T) {
	golden(t, "status", func(w io.Writer) error {
		return layout.Print(w, func(w *layout.Writer) { printStatus(w, livingStatus(1)) })
	})
}

// living is a daemon to which something happens.
type living struct {
	past
	mu   sync.Mutex // guards log and last
	log  *history.Log
	last *history.Snapshot
}

func (l *living) happen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log.Add(history.Event{Kind: history.Placed, Pod: "ran/du-0"})
	l.last = l.log.Snapshot()
}

func (l *living) History() *history.Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *living) Status() *inspect.Status { return livingStatus(l.History().Last()) }

// pictures counts how often the screen was cleared, and signals each time.
type pictures chan struct{}

func (p pictures) Write(b []byte) (int, error) {
	if strings.HasPrefix(string(b), clearScreen) {
		p <- struct{}{}
	}
	return len(b), nil
}

// TestWatch checks that the status is drawn, and drawn again after a change. ^C, which ends
// the context, is exit code 0.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\nrunDir: "+dir+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &living{past: past{started: time.Unix(1700000000, 0).UTC()}, log: history.New()}
	d.happen()
	socket := control.Socket(dir)
	stop := serveDaemon(t, socket, d)
	defer stop()
	reach(t, socket)
	ctx, cancel := context.WithCancel(t.Context())
	drawn, ended := make(pictures), make(chan int, 1)
	go func() {
		ended <- execute(ctx, streams{out: drawn, err: io.Discard}, []string{"status", "--watch", "--config", file})
	}()
	for range 3 {
		select {
		case <-drawn:
			d.happen()
		case code := <-ended:
			t.Fatalf("command ended with %d; want it to run", code)
		}
	}
	cancel()
	for {
		select {
		case <-drawn: // it was about to
		case code := <-ended:
			if code != exitOK {
				t.Errorf("after ^C: exit code %d; want 0", code)
			}
			return
		}
	}
}

// FuzzSince checks that each value that --since accepts is a time, and that no text
// makes it panic.
func FuzzSince(f *testing.F) {
	for _, s := range []string{"", "90m", "-1s", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00+02:00", "9999999h", "yesterday", "1e9s"} {
		f.Add(s)
	}
	now := time.Unix(1700000000, 0)
	f.Fuzz(func(t *testing.T, since string) {
		q, err := (&eventFlags{since: since}).query(now)
		switch {
		case err != nil && (since == "" || !strings.Contains(err.Error(), "--since")):
			t.Fatalf("--since %q: %v", since, err)
		case err == nil && (since == "") != q.Since.IsZero() && since != "0001-01-01T00:00:00Z":
			t.Fatalf("--since %q = %v; want a time", since, q.Since)
		}
		if back, isDuration := time.ParseDuration(since); err == nil && isDuration == nil && (back < 0 || q.Since.After(now)) {
			t.Fatalf("--since %q = %v, after now; want a time in the past", since, q.Since)
		}
	})
}
