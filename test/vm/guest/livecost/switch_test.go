//go:build guest

package livecost_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/samples"
)

var out = flag.String("out", "/tmp/live.txt", "file to which the samples are appended")

const (
	// switchCPU is the CPU of the two processes. No other work is bound to it.
	switchCPU = 3
	// roundTrips are few, so that some samples are free from other load on the host.
	roundTrips = 250
	// rounds is the number of times that the program is attached, and each the number of samples of a state in a round.
	rounds = 6
	each   = 5
)

// Cgroups of this test. The processes are in owner.
const (
	owner = "livecost.slice/owner"
	other = "livecost.slice/other"
)

// TestSwitch measures the time of one context switch between two processes. All states take turns, so that other load on the host affects
// each of them:
//
//   - none: without the program;
//   - free: the program is attached, and the CPU has no owner;
//   - own: the CPU has an owner, and both processes belong to it;
//   - foreign: another cgroup owns the CPU, so that each switch is counted.
//
// run-ns is the time of one run of the program by the kernel's statistics, from samples of its own, because the statistics take time as well.
func TestSwitch(t *testing.T) {
	for _, cgroup := range []string{filepath.Dir(owner), owner, other} {
		dir := filepath.Join(mount, cgroup)
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	p := newPair(t, owner, switchCPU)
	p.switches(roundTrips) // warm up
	name := "Switch/" + kernel(t) + "/"
	for range rounds {
		for range each {
			samples.Append(t, *out, name+"none", roundTrips, p.switches(roundTrips), "ns/op")
		}
		w, err := schedwatch.Open(mount, switchCPU+1)
		if err != nil {
			t.Fatal(err)
		}
		states := []string{"free", "own", "foreign"}
		for range each {
			for _, state := range states {
				p.own(w, state)
				samples.Append(t, *out, name+state, roundTrips, p.switches(roundTrips), "ns/op")
			}
		}
		if err := w.EnableStatistics(); err != nil {
			t.Fatal(err)
		}
		for range each {
			for _, state := range states {
				p.own(w, state)
				samples.Append(t, *out, name+state, roundTrips, p.run(w, state), "run-ns")
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// own sets the owner of the CPU.
func (p *pair) own(w *schedwatch.Program, state string) {
	p.Helper()
	owners := map[string][]schedwatch.Owner{
		"own":     {{CPUs: cpuset.Of(switchCPU), Cgroups: []string{owner}}},
		"foreign": {{CPUs: cpuset.Of(switchCPU), Cgroups: []string{other}}},
	}[state]
	watched, err := w.Own(owners)
	if err != nil || !watched.Equal(cpuset.Of(switchCPU)) && owners != nil {
		p.Fatalf("watched CPUs %s, %v; want CPU %d", watched, err, switchCPU)
	}
}

// run returns the time of one run of the program, and checks that only in the state foreign it counted the switches.
func (p *pair) run(w *schedwatch.Program, state string) float64 {
	p.Helper()
	before, err := w.Read()
	if err != nil {
		p.Fatal(err)
	}
	p.switches(roundTrips)
	after, err := w.Read()
	if err != nil {
		p.Fatal(err)
	}
	runs, took := after.Runs-before.Runs, after.RunTime-before.RunTime
	if runs < 2*roundTrips {
		p.Errorf("%s: %d runs; want at least %d", state, runs, 2*roundTrips)
	}
	// Other tasks of the guest can run on this CPU, too.
	counted := foreign(after) - foreign(before)
	if isCounted := counted >= 2*roundTrips-10; isCounted != (state == "foreign") {
		p.Errorf("%s: %d switches of foreign user tasks", state, counted)
	}
	return float64(took) / float64(max(runs, 1))
}

// foreign returns the switches of foreign user tasks.
func foreign(r schedwatch.Reading) (n uint64) {
	for i := range r.CPUs {
		n += r.CPUs[i].Foreign[schedwatch.User].Switches
	}
	return n
}

// kernel returns a name such as linux6.12.
func kernel(t *testing.T) string {
	t.Helper()
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		t.Fatal(err)
	}
	release := strings.SplitN(unix.ByteSliceToString(uts.Release[:]), ".", 3)
	return "linux" + strings.Join(release[:2], ".")
}
