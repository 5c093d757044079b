package pools_test

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/pooltext"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

var update = flag.Bool("update", false, "rewrite the plans in testdata")

// TestBuild runs the cases in testdata: archives of sections that are read in
// order. topology and config stay in force until they are given again; previous
// replaces the assignments of the plan before; each pods is followed by the plan
// that Build makes then. After adapt the config need not fit the topology.
func TestBuild(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runCase(t, file) })
	}
}

func runCase(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var in pools.Input
	var spec poolspec.Spec
	var top *topology.Topology
	plans, adapts := 0, false
	for i, section := range archive.Files {
		text := string(section.Data)
		switch section.Name {
		case "topology":
			top = must(hardware.Parse(text))(t).Topology()
			in.Machine = allocate.New(top)
		case "config":
			spec = must(pooltext.Parse(text))(t)
		case "adapt":
			adapts = true
		case "domain":
			in.Names.Domain = strings.TrimSpace(text)
		case "static": // all, or namespaces
			in.StaticPods = pools.StaticPods{All: strings.TrimSpace(text) == "all"}
			if !in.StaticPods.All {
				in.StaticPods.Namespaces = strings.Fields(text)
			}
		case "previous":
			in.Previous = must(parseAssignments(text))(t)
		case "pods":
			in.Pods = must(parsePods(text))(t)
		case "plan":
			if in.Pools, _ = spec.Adapt(top); !adapts {
				in.Pools = must(spec.Resolve(top))(t)
			}
			plan := checkedBuild(t, in)
			if got := format(plan); *update {
				archive.Files[i].Data = []byte(got)
			} else if diff := cmp.Diff(text, got); diff != "" {
				t.Errorf("plan %d: -want +got\n%s", plans, diff)
			}
			in.Previous = plan.Assignments
			plans++
		default:
			t.Fatalf("unknown section %q", section.Name)
		}
	}
	if plans == 0 {
		t.Error("plans in this case = 0; want one")
	}
	if data := txtar.Format(archive); *update && !t.Failed() && !bytes.Equal(data, must(os.ReadFile(file))(t)) {
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// checkedBuild builds a plan and checks the properties of all plans.
func checkedBuild(t *testing.T, in pools.Input) pools.Plan {
	t.Helper()
	plan := pools.Build(in)
	for _, err := range invariants.CheckBuild(plan, in) {
		t.Error(err)
	}
	if shuffled := format(pools.Build(shuffle(in))); shuffled != format(plan) {
		t.Errorf("plan depends on the order of the input: -sorted +shuffled\n%s", cmp.Diff(format(plan), shuffled))
	}
	// A daemon that starts now and finds the assignments plans the same. Records
	// that contradict each other are gone by then.
	warm := in
	warm.Previous = plan.Assignments
	again := pools.Build(warm)
	isOverlap := func(p pools.Problem) bool { return p.Code == pools.CodeOverlap }
	settled := plan
	settled.Problems = slices.DeleteFunc(slices.Clone(plan.Problems), isOverlap)
	if format(again) != format(settled) {
		t.Errorf("the plan is not a fixed point: -first +second\n%s", cmp.Diff(format(settled), format(again)))
	}
	if t.Failed() {
		t.Logf("plan:\n%s", format(plan))
	}
	return plan
}

// shuffle returns in with all its lists in another order, always the same one.
func shuffle(in pools.Input) pools.Input {
	r := rand.New(rand.NewPCG(1, uint64(len(in.Pods))))
	in.Pods = slices.Clone(in.Pods)
	for i := range in.Pods {
		c := slices.Clone(in.Pods[i].Containers)
		r.Shuffle(len(c), func(i, j int) { c[i], c[j] = c[j], c[i] })
		in.Pods[i].Containers = c
	}
	r.Shuffle(len(in.Pods), func(i, j int) { in.Pods[i], in.Pods[j] = in.Pods[j], in.Pods[i] })
	in.Previous = slices.Clone(in.Previous)
	r.Shuffle(len(in.Previous), func(i, j int) { in.Previous[i], in.Previous[j] = in.Previous[j], in.Previous[i] })
	return in
}

func TestBuildLeavesItsInputAlone(t *testing.T) {
	top := hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 4, Threads: 2}.Topology()
	in := pools.Input{Machine: allocate.New(top)}
	in.Pools = must(must(pooltext.Parse("guaranteed 2-7\n"))(t).Resolve(top))(t)
	in.Pods = must(parsePods("pod b n/b Guaranteed\nz 2 running 2 cpu=1\na 1 running 1 cpu=2\npod a n/a Burstable\nc 3 running 1\n"))(t)
	in.Previous = must(parseAssignments("b/z 3,7\nb/a 2\na/c 4\n"))(t)
	before := must(parsePods("pod b n/b Guaranteed\nz 2 running 2 cpu=1\na 1 running 1 cpu=2\npod a n/a Burstable\nc 3 running 1\n"))(t)
	previous := slices.Clone(in.Previous)
	pools.Build(in)
	if diff := cmp.Diff(before, in.Pods); diff != "" {
		t.Errorf("Build changes its pods: -before +after\n%s", diff)
	}
	if diff := cmp.Diff(previous, in.Previous); diff != "" {
		t.Errorf("Build changes Previous: -before +after\n%s", diff)
	}
}

func TestBuildOfNothing(t *testing.T) {
	plan := pools.Build(pools.Input{Machine: allocate.New(&topology.Topology{})})
	if len(plan.Pods)+len(plan.Assignments)+len(plan.Problems) != 0 || !plan.Free.IsEmpty() {
		t.Errorf("Build of nothing = %+v, want nothing", plan)
	}
}
