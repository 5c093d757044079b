//go:build vm

package vm_test

import (
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/matrix"
)

// chosenPairs is the default of `make test-vm`; `make test-matrix` runs all pairs.
var chosenPairs = flag.String("pairs", "slice", "pairs of TestPairs: all; names with commas between; slice: the first, and those that -slice chooses, or without it one by the commit")

// howMany is the number of containers that the first suite of every pair starts.
var howMany = flag.String("starts", "usual", "containers of the first suite: few, usual, or many (make test-matrix)")

// startCounts returns the flags of these numbers: containers one after another, and at once.
func startCounts(many string) ([]string, error) {
	switch many {
	case "few":
		return []string{"-starts=10", "-starts-at-once=10"}, nil
	case "usual":
		return []string{"-starts=30", "-starts-at-once=10"}, nil
	case "many": // 200 and 50 on each pair
		return []string{"-starts=100", "-starts-at-once=25"}, nil
	}
	return nil, fmt.Errorf("check flag value %q: want few, usual or many", many)
}

// everyPair returns the packages below guest that run on each pair, one after the other in one machine, with cpupoold and its unit
// installed. A test there reads the pair with guestnode.ReadRuntime, or Node.Runtime.
func everyPair(p matrix.Pair, starts []string) []guestPackage {
	return []guestPackage{
		{"runtime", []string{"-runtime=" + p.Version, "-systemd=" + p.Suite.Systemd, "-kernel=" + p.Suite.Kernel}},
		{"cri", nil},
		{"firstcpus", starts},
		{"isolation", nil},
	}
}

type guestPackage struct {
	name string
	args []string
}

// TestPairs checks on every pair the properties that cpupoold relies on. -run
// TestPairs/crio-crun/runtime -pairs all is one package on one pair.
func TestPairs(t *testing.T) {
	chosen, err := choosePairs(*chosenPairs, head(t))
	if err != nil {
		t.Fatal(err)
	}
	args, err := startCounts(*howMany)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range chosen {
		t.Run(p.Name, func(t *testing.T) {
			leave(t)
			m := vm.Start(t, p.Config)
			installDaemon(t, m)
			for _, pkg := range everyPair(p, args) {
				t.Run(pkg.name, func(t *testing.T) { vm.RunTests(t, m, "./guest/"+pkg.name, pkg.args...) })
			}
		})
	}
}

// head is the commit that is tested.
func head(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatalf("find the commit for -pairs slice: git rev-parse HEAD: %v", err)
	}
	return strings.TrimSpace(string(out))
}

func choosePairs(chosen, commit string) ([]matrix.Pair, error) {
	all := matrix.Pairs()
	switch chosen {
	case "all":
		return all, nil
	case "slice":
		if *chosenSlice != "all" {
			return all, nil // the others are left
		}
		h := fnv.New32a()
		_, _ = io.WriteString(h, commit)
		others := all[1:]
		return []matrix.Pair{all[0], others[int(h.Sum32()%uint32(len(others)))]}, nil
	}
	var named []matrix.Pair
	for name := range strings.SplitSeq(chosen, ",") {
		i := slices.IndexFunc(all, func(p matrix.Pair) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("choose pairs %q: there is no %s", chosen, name)
		}
		named = append(named, all[i])
	}
	return named, nil
}
