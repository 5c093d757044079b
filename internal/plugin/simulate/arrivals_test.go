package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
)

// TestArrivals checks that pods get the same CPUs whether the node is planned as a whole after each
// of them, as with a trace, or once in the end.
func TestArrivals(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		shape := []struct{ machine, last string }{{"2s4c2t", "15"}, {"2s2n4c2t", "31"}, {"1s2l6c", "11"}, {"4s4c2t", "31"}}[r.IntN(4)]
		machine, yaml := shape.machine, arrivalsConfig(r, shape.last)
		pods, trace := arrivalsPods(r)
		at, _ := simulated(t, machine, yaml, pods, "", "")
		later, _ := simulated(t, machine, yaml, pods, trace, "")
		if diff := cmp.Diff(where(later), where(at)); diff != "" {
			t.Fatalf("run %d: %s\n%s\n%s\n(-one plan for each pod +one plan):\n%s", i, machine, yaml, pods, diff)
		}
		if diff := cmp.Diff(refusalsOf(later), refusalsOf(at)); diff != "" {
			t.Fatalf("run %d: %s\n%s\n%s\nrefusals (-one plan for each pod +one plan):\n%s", i, machine, yaml, pods, diff)
		}
	}
}

func refusalsOf(d *simulate.Document) string {
	var lines []string
	for _, r := range d.Refused {
		over := ""
		if r.Until != "" {
			over = " over"
		}
		lines = append(lines, r.Name()+" "+r.Code+over) // the text states the free CPUs at another time
	}
	slices.Sort(lines) // a trace finds them in another order
	return strings.Join(lines, "\n")
}

func arrivalsConfig(r *rand.Rand, last string) string {
	guaranteed := []string{"{cpus: 4-" + last + "}", "{from: shared}", "{from: shared, floor: 3}", "none"}[r.IntN(4)]
	shared := "2-3"
	if strings.Contains(guaranteed, "from") {
		shared = "rest"
	}
	options := []string{"", "full-pcpus-only: true", "distribute-cpus-across-numa: true", "topology-policy: restricted", "topology-policy: single-numa-node", "one-owner-per-core: true"}[r.IntN(6)]
	if guaranteed == "none" {
		guaranteed, options = "{cpus: none}", ""
	}
	guaranteed = strings.TrimSuffix(guaranteed, "}") + ", options: {" + options + "}}"
	units := ""
	if !strings.Contains(guaranteed, "none") && r.IntN(3) == 0 {
		units = "units: {u.service: {cpus: 1}}\n"
	}
	return "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\npartitions: [{type: management, cpus: \"0-1\", namespaces: [kube-system]}]\nshared: {cpus: " + shared + "}\nguaranteed: " + guaranteed + "\n" + units
}

// arrivalsPods returns pods with one to three containers and init containers, and a trace that
// adds them one after the other.
func arrivalsPods(r *rand.Rand) (pods, trace string) {
	var all, events strings.Builder
	for i := range 3 + r.IntN(8) {
		container := func(name string) string {
			cpu := []string{"1", "2", "2", "3", "4", "500m", "1500m"}[r.IntN(7)]
			return fmt.Sprintf("  - {name: %s, resources: {limits: {cpu: %q, memory: 1Gi}}}\n", name, cpu)
		}
		fmt.Fprintf(&all, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec:\n", i)
		if r.IntN(3) == 0 {
			all.WriteString("  initContainers:\n" + container("i"))
		}
		all.WriteString("  containers:\n")
		for c := range 1 + r.IntN(3) {
			all.WriteString(container(fmt.Sprintf("c%d", c)))
		}
		fmt.Fprintf(&events, "{\"at\": \"0s\", \"add\": \"default/p%d\"}\n", i)
	}
	return all.String(), events.String()
}
