package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// sample is a report on a machine of two nodes of four cores of two threads.
func sample() defragReport {
	all := cpuset.Range(0, 15)
	t := &topology.Topology{Possible: all, Present: all, Online: all}
	for id := range 16 {
		t.CPUs = append(t.CPUs, topology.CPU{ID: id, Core: id / 2, L3: id / 8, Die: id / 8, Package: id / 8, Node: id / 8})
	}
	for first := 0; first < 16; first += 2 {
		t.Cores = append(t.Cores, topology.Group{ID: first, CPUs: cpuset.Range(first, first+1)})
	}
	for i := range 2 {
		half := cpuset.Range(8*i, 8*i+7)
		t.L3s = append(t.L3s, topology.Group{ID: 8 * i, CPUs: half})
		t.Packages = append(t.Packages, topology.Group{ID: i, CPUs: half})
		t.Nodes = append(t.Nodes, topology.Node{ID: i, CPUs: half, HasMemory: true, Distances: []int{10 + 11*i, 21 - 11*i}})
	}
	t.Dies = t.Packages
	owner := func(pod, uid string, cpus cpuset.Set, fixed string) pools.Owner {
		return pools.Owner{Key: pools.Key{PodUID: uid, Container: "app"}, Pod: pod, CPUs: cpus, Fixed: fixed}
	}
	return defragReport{Report: defrag.Analyse(defrag.Input{
		Machine: allocate.New(t), Pool: cpuset.Range(4, 15),
		Owners: []pools.Owner{
			owner("ran/du-0", "u1", cpuset.Of(6, 7, 8, 9), ""),
			owner("ran/cu-0", "u2", cpuset.Of(10, 12), ""),
			owner("ran/once", "u3", cpuset.Of(14), "has exited"),
			{Key: pools.Key{Container: "gnss.service"}, CPUs: cpuset.Of(11)},
		},
	})}
}

func TestPrintDefrag(t *testing.T) {
	doc, err := os.ReadFile("../../docs/how-to/defragment.md")
	if err != nil {
		t.Fatal(err)
	}
	const want = `OWNER         CPUS   SPLIT CORES  SHARED  L3 GROUPS  NODES  PACKAGES  REMOTE CPUS  STAYS
gnss.service  11     1            1 (0)   1          1      1         0            -
ran/du-0/app  6-9    0            0       2 (1)      2 (1)  2 (1)     0            -
ran/cu-0/app  10,12  2 (0)        1 (0)   1          1      1         0            -
ran/once/app  14     1            0       1          1      1         0            has exited
(In brackets: the value if the owner were alone in the pool.)

ROOM                 FREE CPUS  IN ONE L3 GROUP  IN WHOLE CORES
node 0               2 → 0      2 → 0            2 → 0
node 1               2 → 4      2 → 4            0 → 2
largest on one node  2 → 4      2 → 4            2

2 moves, in this order; --apply has the daemon make them:
1  ran/cu-0/app  10,12 → 12-13  split cores 2 → 0
2  ran/du-0/app  6-9 → 4-7      nodes 2 → 1; packages 2 → 1; L3 groups 2 → 1; NUMA nodes 0-1 → 0: its memory stays where it is
`
	var out bytes.Buffer
	a := &app{streams: streams{out: &out}}
	if err := a.defragTable(t.Context(), sample(), nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if !strings.Contains(string(doc), want) {
		t.Errorf("docs/how-to/defragment.md shows another report than\n%s", want)
	}
	out.Reset()
	if err := a.defragTable(t.Context(), defragReport{}, nil); err != nil || out.String() != "No container and no unit has exclusive CPUs.\n\nROOM                 FREE CPUS  IN ONE L3 GROUP  IN WHOLE CORES\nlargest on one node  0          0                0\n\nNothing to move.\n" {
		t.Errorf("empty report: %v\n%s", err, &out)
	}
}

func TestWhy(t *testing.T) {
	for _, c := range []struct {
		move  defrag.Move
		bound bool
		want  string
	}{
		{defrag.Move{Now: defrag.Shape{RemoteCPUs: 2}, FromNodes: cpuset.Of(0), ToNodes: cpuset.Of(1)}, true,
			"remote CPUs 2 → 0; NUMA nodes 0 → 1: the kernel migrates its memory (guaranteed.memory: bind)"},
		{defrag.Move{MakesRoom: true}, false, "makes room for the next move"},
		{defrag.Move{}, false, "closer to its CPU options"},
	} {
		if got := why(c.move, c.bound); got != c.want {
			t.Errorf("why(%+v) = %q; want %q", c.move, got, c.want)
		}
	}
}

// daemonAt answers on a socket as a daemon does, with an outcome for each owner.
func daemonAt(t *testing.T, outcome func(control.Move) (control.Outcome, error)) *control.Client {
	t.Helper()
	socket := control.Socket(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- control.New(func(_ context.Context, m control.Move) (control.Outcome, error) { return outcome(m) },
			time.Minute, control.ClaimFuncs{}, nil, slog.New(slog.DiscardHandler)).Serve(ctx, socket)
	}()
	client := control.NewClient(socket)
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for client.Reach(ctx) != nil {
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	return client
}

func TestApplyMoves(t *testing.T) {
	done := func(control.Move) (control.Outcome, error) { return control.Done, nil }
	refused := func(control.Move) (control.Outcome, error) {
		return control.Refused, errors.New("must stay where it is: \x1b[2Jhas exited")
	}
	for _, c := range []struct {
		name    string
		outcome func(control.Move) (control.Outcome, error)
		err     error
		want    string
	}{
		{"done", done, nil, "done: ran/cu-0/app 10,12 → 12-13\ndone: ran/du-0/app 6-9 → 4-7\n"},
		{"refused", refused, exitCode(exitFindings), "refused: ran/cu-0/app 10,12 → 12-13: must stay where it is: ?[2Jhas exited\n" +
			"skipped: ran/du-0/app 6-9 → 4-7: a move before it was not done\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := daemonAt(t, c.outcome)
			var out bytes.Buffer
			a := &app{streams: streams{out: &out}}
			err := a.defragTable(t.Context(), sample(), client)
			if !errors.Is(err, c.err) || !strings.HasSuffix(out.String(), c.want) {
				t.Errorf("apply = %v, want %v; it printed\n%s\nwant in the end\n%s", err, c.err, &out, c.want)
			}
			out.Reset()
			err = a.defragJSON(t.Context(), sample(), client)
			var got struct {
				Moves   []struct{ Pod, Container, From, To string }
				Results []struct{ PodUID, Outcome string }
			}
			if err2 := json.Unmarshal(out.Bytes(), &got); err2 != nil || !errors.Is(err, c.err) || len(got.Moves) != 2 || len(got.Results) != 2 ||
				got.Moves[0].Pod != "ran/cu-0" || got.Moves[0].To != "12-13" || got.Results[0].PodUID != "u2" || got.Results[0].Outcome != c.name {
				t.Errorf("apply as JSON = %v, %v: %s", err, err2, &out)
			}
		})
	}
}

func TestApplyNeedsADaemon(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	text := "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\nrunDir: " + dir + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"plan --defrag --apply --config " + file, exitError, "no daemon is running: no process listens on " + control.Socket(dir) + "; start cpupoold run"},
		{"plan --apply --config " + file, exitUsage, "--apply needs --defrag"},
	} {
		var stdout, stderr bytes.Buffer
		code := execute(t.Context(), streams{out: &stdout, err: &stderr}, strings.Fields(c.args))
		if code != c.code || !strings.Contains(stderr.String(), c.stderr) || stdout.Len() > 0 {
			t.Errorf("cpupoold %s: exit code %d, %q, %q; want %d, and %q", c.args, code, &stdout, &stderr, c.code, c.stderr)
		}
	}
}
