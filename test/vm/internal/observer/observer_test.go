package observer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
)

// TestObserver checks that an observer finds containers that are created and removed in a tree
// of plain files. The thread is this test's.
func TestObserver(t *testing.T) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	mine := cpus(set[0])
	root := t.TempDir()
	write := func(dir, file, text string) {
		t.Helper()
		dir = filepath.Join(root, dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	add := func(dir string, effective cpus) {
		write(dir, "cgroup.threads", fmt.Sprintf("%d\n", os.Getpid()))
		write(dir, "cpuset.cpus.effective", effective.String()+"\n")
	}
	write("", "cpuset.cpus.effective", "0-63\n")
	o, err := Start(root)
	if err != nil {
		t.Fatal(err)
	}
	o.Identify("a.scope", Exclusive, mine.count(), time.Now())
	o.Identify("b.scope", "shared", 0, time.Now())
	add("kubepods-pod1.slice/a.scope", mine)
	write("kubepods-besteffort.slice/kubepods-pod2.slice/b.scope", "cgroup.threads", "")
	write("kubepods-besteffort.slice/kubepods-pod2.slice/b.scope", "cpuset.cpus.effective", mine.String()+"\n")
	add("kubepods-besteffort.slice/kubepods-pod2.slice/b.scope/container", mine)
	nodefixture.Eventually(t, "an overlap", func() bool { return len(o.Open()) == 1 })
	if open := o.Open(); !strings.HasPrefix(open[0], "shared container b.scope (placed before: true, its cpuset is ") {
		t.Errorf("open = %v; want b.scope", open)
	}
	if err := os.RemoveAll(filepath.Join(root, "kubepods-besteffort.slice")); err != nil {
		t.Fatal(err)
	}
	nodefixture.Eventually(t, "no overlap", func() bool { return len(o.Open()) == 0 })
	rounds := func() {
		t.Helper()
		was, _ := o.Report() // Stop returns the error
		nodefixture.Eventually(t, "rounds", func() bool { now, err := o.Report(); return err != nil || now.Rounds > was.Rounds+5 })
	}
	o.Present()
	rounds() // an overlap begins with the round before it
	o.Identify("c.scope", "shared", 0, time.Now())
	add("kubepods-pod3.slice/c.scope", mine)
	rounds()
	if open := o.Open(); len(open) != 0 {
		t.Errorf("open = %v; want none that began after Present", open)
	}
	report, err := o.Stop()
	if err != nil {
		t.Fatal(err)
	}
	// The other containers were placed at once.
	if got := report.Overlaps[unexplained]; got.Count != 2 || report.Rounds < 2 || report.Rate() <= 0 {
		t.Errorf("report = %+v; want two unexplained overlaps", report)
	}
	if excess := report.Excess(); len(excess) != 1 {
		t.Errorf("excess: %v; want the unexplained overlap", excess)
	}
}

// TestReport checks the sum of reports, and the limits of overlaps.
func TestReport(t *testing.T) {
	first := Report{Rounds: 10, Lasted: time.Second, MaxRound: 3, Overlaps: map[string]Overlaps{
		pauseBegins: {Count: 2, Longest: time.Second, Example: "x"},
	}}
	second := Report{Rounds: 30, Lasted: time.Second, MaxRound: 2, Overlaps: map[string]Overlaps{
		pauseBegins: {Count: 1, Longest: time.Hour, Example: "y"},
		unexplained: {Count: 1, Longest: time.Microsecond, Example: "z"},
	}}
	sum := first.Plus(second)
	if sum.Rate() != 20 || sum.MaxRound != 3 {
		t.Errorf("sum = %+v; want a rate of 20 and a round of 3", sum)
	}
	if got, want := sum.Overlaps[pauseBegins], (Overlaps{Count: 3, Longest: time.Hour, Example: "y"}); got != want {
		t.Errorf("overlaps of pause containers: %+v; want %+v", got, want)
	}
	if excess := first.Excess(); len(excess) > 0 {
		t.Errorf("excess of the first = %v; want none", excess)
	}
	if excess := sum.Excess(); len(excess) != 2 {
		t.Errorf("excess of the sum: %v; want both causes", excess)
	}
}

func TestIsRuntime(t *testing.T) {
	for name, want := range map[string]bool{"runc:[2:INIT]": true, "6": true, "crun": true, "pause": false, "demo": false} {
		if isRuntime(name) != want {
			t.Errorf("isRuntime(%q) = %t", name, !want)
		}
	}
}
