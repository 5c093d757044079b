package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/codes"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/internal/node/preflight"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

func TestPrintPlan(t *testing.T) {
	p := preview.Preview{
		Host: []hostslices.Verdict{
			{Name: "system.slice", State: hostslices.Confined, CPUs: cpuset.Range(0, 1)},
			{Name: "user.slice", State: hostslices.Foreign, Why: "another process has set its CPUs to 3"},
		},
		Adapted: []string{"shared.cpus: the machine has no CPU 8"},
		Offline: cpuset.Range(6, 7),
		Owners: []preview.Owner{
			{Pod: "default/du", Name: "du", Wanted: noise.Isolated, Why: "a sibling has CPUs 0-7",
				Report: noise.Machine{NohzFull: cpuset.Range(5, 7)}.Of(cpuset.Range(4, 5), noise.CPUSet)},
			{Name: "ptp.service", Wanted: noise.CPUSet, Report: noise.Machine{Isolated: cpuset.Of(6), NohzFull: cpuset.Range(5, 7)}.Of(cpuset.Of(6), noise.CPUSet)},
		},
		Ends:          []cgroup.Path{"kubepods.slice/a"},
		BootArguments: []string{"nohz_full=4-7", "isolcpus=managed_irq,4-7"},
		Plan: pools.Plan{
			Pods: []pools.PodPlan{{Namespace: "default", Name: "du", Containers: []pools.Placement{
				{Name: "du", Pool: pools.Guaranteed, CPUs: cpuset.Range(4, 5), Reason: pools.Reason{Code: pools.CodeExclusive, Text: "2 whole CPUs"}},
				{Name: "init", State: pools.Exited, Pool: pools.Shared, CPUs: cpuset.Of(2)},
			}}},
			Units: []pools.UnitPlan{
				{Name: "gnss.service", Pool: pools.Management, Type: "radio", CPUs: cpuset.Of(0), Reason: pools.Reason{Code: pools.CodeUnit, Text: "unit of the configuration"}},
			},
			Problems: []pools.Problem{{Unit: "du.service", Reason: pools.Reason{Code: "Refused", Text: "too few"}}},
		},
	}
	const want = `POD         CONTAINER OR UNIT  POOL              CPUS  REASON
default/du  du                 guaranteed        4-5   2 whole CPUs (Exclusive)
-           gnss.service       management/radio  0     unit of the configuration (Unit)
-           system.slice       host              0-1   host services
codes: https://github.com/cpupoold/cpupoold/blob/main/docs/reference/problem-codes.md

Exclusive CPUs, and on which of them the kernel does work of its own:
POD         CONTAINER OR UNIT  CPUS  KEPT BY                           BALANCING  TICK  RCU  MANAGED IRQS
default/du  du                 4-5   cpuset, to be partition-isolated  node       4     4    4-5
-           ptp.service        6     cpuset                            off        -     -    6
no partition: default/du/du: a sibling has CPUs 0-7
partition to end: kubepods.slice/a
kernel arguments against tick, RCU callbacks and managed interrupts there: nohz_full=4-7 isolcpus=managed_irq,4-7

Nothing to write.
adapted: shared.cpus: the machine has no CPU 8
offline: CPUs 6-7; their pools are smaller
problem: du.service: too few (Refused)
left alone: user.slice: another process has set its CPUs to 3
`
	var out bytes.Buffer
	if err := layout.Print(&out, func(w *layout.Writer) { printPlan(w, p) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// TestPrintable checks that control characters in a thread's name do not reach the
// operator's terminal, and break no line.
func TestPrintable(t *testing.T) {
	var out bytes.Buffer
	table := layout.NewTable("TASK", "CPUS")
	table.Row("\x1b]0;own\a\tx\ny\u202e", "")
	if err := layout.Print(&out, func(w *layout.Writer) { w.Table(table) }); err != nil {
		t.Fatal(err)
	}
	if want := "TASK           CPUS\n?]0;own??x?y?  -\n"; out.String() != want {
		t.Errorf("table %q; want %q", out.String(), want)
	}
	if got := layout.Printable("äß ×12"); got != "äß ×12" {
		t.Errorf("Printable = %q; want no change", got)
	}
}

// TestFindingsArePrintable checks that a finding keeps its lines and cannot control the terminal.
func TestFindingsArePrintable(t *testing.T) {
	var out bytes.Buffer
	found := []preflight.Finding{{Severity: preflight.Warning, Check: "c", Subject: "s", Found: "a\x1b[2J\nb"}}
	if err := layout.Print(&out, func(w *layout.Writer) { printFindings(w, found) }); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "warning c: s: a?[2J\nb\n"+codes.Hint()+"\n"; got != want {
		t.Errorf("printed %q; want %q", got, want)
	}
}

func TestPrintTopology(t *testing.T) {
	all := cpuset.Range(0, 3)
	m := &topology.Topology{
		Possible: cpuset.Range(0, 4), Present: cpuset.Range(0, 4), Online: all, Isolated: cpuset.Range(2, 3),
		CPUs: []topology.CPU{
			{ID: 0, Core: 0, Kind: topology.Performance}, {ID: 1, Core: 0, Kind: topology.Performance},
			{ID: 2, Core: 1, L3: 1, Node: 1, Kind: topology.Efficiency}, {ID: 3, Core: 2, L3: 1, Node: 1, Kind: topology.Efficiency},
		},
		Cores:    []topology.Group{{ID: 0, CPUs: cpuset.Range(0, 1)}, {ID: 2, CPUs: cpuset.Of(2)}, {ID: 3, CPUs: cpuset.Of(3)}},
		L3s:      []topology.Group{{ID: 0, CPUs: cpuset.Range(0, 1)}, {ID: 2, CPUs: cpuset.Range(2, 3)}},
		Dies:     []topology.Group{{ID: 0, CPUs: all}},
		Packages: []topology.Group{{ID: 0, CPUs: all}},
		Nodes:    []topology.Node{{ID: 0, CPUs: cpuset.Range(0, 1), HasMemory: true}, {ID: 1, CPUs: cpuset.Range(2, 3)}, {ID: 2, HasMemory: true}},
	}
	const want = `NODE  PACKAGE  DIE  L3  CORE  CPUS  KIND
0     0        0    0   0     0-1   performance
1     0        0    2   2     2     efficiency
1     0        0    2   3     3     efficiency

online             0-3
offline            4
present            0-4
isolated at boot   2-3
nohz_full          -
nodes with memory  0,2
`
	var out bytes.Buffer
	if err := layout.Print(&out, func(w *layout.Writer) { printTopology(w, m) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("topology (-want +got):\n%s", diff)
	}
}

// TestAnnounce checks that only a terminal gets the text, and only after a second.
func TestAnnounce(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer terminal.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "err"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	synctest.Test(t, func(t *testing.T) {
		for _, to := range []*os.File{file, terminal} {
			a := &app{streams: streams{err: to}}
			a.announce("early")()
			stop := a.announce("late")
			<-time.After(time.Minute)
			synctest.Wait()
			stop()
		}
	})
	text := make([]byte, 100)
	n, err := master.Read(text)
	if got := string(text[:n]); got != "late\r\n" || err != nil {
		t.Errorf("the terminal got %q, %v; want late", got, err)
	}
	if info, err := file.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("a file got text: %v, %v", info, err)
	}
}
