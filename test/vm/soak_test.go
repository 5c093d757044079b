//go:build vm

package vm_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/soakstate"
)

var (
	soakTime  = flag.Duration("soak", 10*time.Minute, "duration of TestSoak/faults; 0 skips it")
	soakSeed  = flag.Uint64("soak.seed", 1, "seed of TestSoak")
	soakSuite = flag.String("soak.suite", "trixie", "Debian suite of the machine of TestSoak/faults; the kernel of trixie has partitions")
	soakKills = flag.Int("soak.kills", 3, "kills of the daemon in TestSoak/kills, for each kind of pool; 0 skips it")
	soakPairs = flag.String("soak.pairs", "containerd", "pairs of TestSoak/kills, with commas between; they share the kills")
	soakLimit = flag.Duration("soak.limit", 0, "time after which TestSoak/kills begins no further kill, so that a later run with -soak.state continues; 0 means no limit")
	soakState = flag.String("soak.state", "", "file with the progress of TestSoak/kills, from which the next run continues; empty: none")
	churned   = flag.Int("churn", 0, "containers that TestChurn starts and stops; 0 leaves it out")
	churnedOn = flag.String("churn.runtime", "crio-crun", "container runtime of TestChurn's machine: one of vm.Runtime's names")
)

// TestSoak runs the daemon while parts of its node fail at random and pods start and stop:
// `make soak DURATION=8h KILLS=200 SEED=2`. Faults checks that the daemon reaches its plan after
// each fault. Kills measures
// how long threads of other containers can run on exclusive CPUs.
func TestSoak(t *testing.T) {
	leave(t)
	t.Run("faults", func(t *testing.T) {
		if *soakTime == 0 {
			t.Skip("-soak=0")
		}
		m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Suite: *soakSuite})
		installDaemon(t, m)
		vm.RunTests(t, m, "./guest/daemon", "-test.run=^TestSoak$", fmt.Sprintf("-soak=%v", *soakTime), fmt.Sprintf("-seed=%d", *soakSeed), "-more")
	})
	t.Run("kills", soakKilled)
}

// soakKilled kills the daemon on each pair, with each kind of pool.
func soakKilled(t *testing.T) {
	if *soakKills == 0 {
		t.Skip("-soak.kills=0")
	}
	pairs, err := choosePairs(*soakPairs, "")
	if err != nil {
		t.Fatal(err)
	}
	file := *soakState
	if file == "" {
		file = filepath.Join(t.TempDir(), "soak.json")
	}
	state, err := soakstate.Load(file, *soakSeed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		t.Logf("overlaps of all runs:\n%s", state.Table())
		for _, excess := range state.Excess() {
			t.Error(excess)
		}
	})
	began := time.Now()
	for i, p := range pairs {
		share := (*soakKills*(i+1))/len(pairs) - *soakKills*i/len(pairs)
		t.Run(p.Name, func(t *testing.T) {
			made := func(kind string) int { return state.Progress[p.Name+", "+kind].Kills }
			kinds := slices.DeleteFunc([]string{"fixed", "from-shared", "partitions"}, func(kind string) bool { return made(kind) >= share })
			// A limited run begins with the kind that has the fewest.
			slices.SortStableFunc(kinds, func(a, b string) int { return made(a) - made(b) })
			if len(kinds) == 0 {
				t.Skipf("%d kills of each kind in earlier runs", share)
			}
			if *soakLimit > 0 && time.Since(began) > *soakLimit {
				t.Skip("the time of -soak.limit is over")
			}
			m := vm.Start(t, p.Config)
			installDaemon(t, m)
			for _, kind := range kinds {
				t.Run(kind, func(t *testing.T) { soakKind(t, m, state, p.Name, kind, share, began) })
			}
		})
	}
}

// soakKind makes the kills that earlier runs have left of one kind of pool, and records each.
func soakKind(t *testing.T, m *vm.VM, state *soakstate.State, pair, kind string, kills int, began time.Time) {
	row := pair + ", " + kind
	done := state.Progress[row].Kills
	left := time.Duration(0) // without a limit
	if *soakLimit > 0 {
		if left = *soakLimit - time.Since(began); left <= 0 {
			t.Skip("the time of -soak.limit is over")
		}
	}
	const address = "127.0.0.1:9411" // of the guest, where nothing else listens
	l, err := m.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	received := make(chan error, 1)
	go func() {
		received <- receive(l, func(p soakstate.Progress) error { return state.Record(row, p) })
	}()
	vm.RunTests(t, m, "./guest/daemon", "-test.run=^TestKills$", fmt.Sprintf("-kills=%d", kills-done), fmt.Sprintf("-kills.done=%d", done),
		"-kills.kind="+kind, "-kills.to="+address, fmt.Sprintf("-seed=%d", *soakSeed), fmt.Sprintf("-kills.time=%v", left))
	_ = l.Close() // without a connection, receive returns an error
	if err := <-received; err != nil {
		t.Errorf("receive progress from the guest: %v", err)
	}
}

// receive calls record with each progress that the guest writes to its connection.
func receive(l net.Listener, record func(soakstate.Progress) error) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	lines := json.NewDecoder(conn)
	for {
		var p soakstate.Progress
		switch err := lines.Decode(&p); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := record(p); err != nil {
			return err
		}
	}
}

// TestChurn starts and stops thousands of containers: `make churn`.
func TestChurn(t *testing.T) {
	if *churned == 0 {
		t.Skip("hours: make churn")
	}
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Runtime: vm.Runtime{Name: *churnedOn}})
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/daemon", "-test.run=^TestChurn$", fmt.Sprintf("-churn=%d", *churned))
}
