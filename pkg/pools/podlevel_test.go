package pools_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/pooltext"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// row is a row of the decision table.
type row struct {
	title, total string
	steps        []string
	want         map[pools.PodLevel]string
}

func parseRow(t *testing.T, f txtar.File) row {
	t.Helper()
	r := row{title: f.Name, want: make(map[pools.PodLevel]string)}
	for line := range strings.Lines(string(f.Data)) {
		line = strings.TrimSpace(line)
		key, rest, _ := strings.Cut(line, " ")
		switch {
		case strings.HasSuffix(key, ":"):
			r.want[pools.PodLevel(strings.TrimSuffix(key, ":"))] = rest
		case key == "total" && r.total == "":
			r.total = line
		default:
			r.steps = append(r.steps, line)
		}
	}
	if len(r.want) != 2 || len(r.steps) == 0 {
		t.Fatalf("%s: %d steps, expectations %v; want some steps and both modes", f.Name, len(r.steps), r.want)
	}
	return r
}

// orders returns the steps of a row in all orders: creations that follow each other are
// permuted.
func (r *row) orders() [][]string {
	if strings.Contains(r.title, "ordered") {
		return [][]string{r.steps}
	}
	end := 0
	all := [][]string{nil}
	for start := 0; start < len(r.steps); start = end {
		end = start + 1
		for r.steps[start][0] == '+' && end < len(r.steps) && r.steps[end][0] == '+' && !strings.HasPrefix(r.steps[start], "+ S") {
			end++
		}
		var longer [][]string
		for _, order := range all {
			for _, p := range permutations(r.steps[start:end]) {
				longer = append(longer, slices.Concat(order, p))
			}
		}
		all = longer
	}
	return all
}

func permutations(items []string) [][]string {
	if len(items) <= 1 {
		return [][]string{items}
	}
	var all [][]string
	for i := range items {
		rest := slices.Delete(slices.Clone(items), i, i+1)
		for _, p := range permutations(rest) {
			all = append(all, slices.Concat(items[i:i+1], p))
		}
	}
	return all
}

// life is a node with one pod of a row.
type life struct {
	in    pools.Input
	clock int64
}

func newLife(t *testing.T, r row, mode pools.PodLevel) *life {
	t.Helper()
	top := hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 160, Threads: 2}.Topology()
	text := "shared 0-1\nguaranteed 2-319"
	if strings.Contains(r.total, "full-pcpus-only") {
		text += " full-pcpus-only=true"
	}
	spec := must(pooltext.Parse(text + "\n"))(t)
	spec.Guaranteed.PodLevel = mode
	l := &life{in: pools.Input{Machine: allocate.New(top), Pools: must(spec.Resolve(top))(t)}}
	pod := pools.Pod{UID: "a", Namespace: "default", Name: "a", QoS: pools.QoSGuaranteed, Settled: strings.Contains(r.title, "settled")}
	if strings.Contains(r.total, "Burstable") {
		pod.QoS = pools.QoSBurstable
	}
	l.in.Pods = []pools.Pod{pod}
	l.setTotal(t, r.total)
	return l
}

func (l *life) setTotal(t *testing.T, line string) {
	t.Helper()
	for _, word := range strings.Fields(line)[1:] {
		l.in.Pods[0].Resized = l.in.Pods[0].Resized || word == "resized"
		if strings.Contains(word, "=") {
			if err := setResource(&l.in.Pods[0].Resources, word); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (l *life) resources(t *testing.T, words []string) (r pools.Resources) {
	t.Helper()
	for _, word := range words {
		if word == "full" {
			return l.in.Pods[0].Resources
		}
		if err := setResource(&r, word); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// isDevices reports whether a word of a creation gives the container CDI devices.
func isDevices(word string) bool { return word == "devices" }

// step lets one thing happen, and returns the plan after it.
func (l *life) step(t *testing.T, line string) pools.Plan {
	t.Helper()
	f := strings.Fields(line)
	l.clock++
	l.in.Pods = slices.Clone(l.in.Pods)
	pod := &l.in.Pods[0]
	pod.Containers = slices.Clone(pod.Containers)
	newest := func() *pools.Container {
		for i := range slices.Backward(pod.Containers) {
			if pod.Containers[i].Name == f[1] {
				return &pod.Containers[i]
			}
		}
		t.Fatalf("%s: unknown container %s", line, f[1])
		return nil
	}
	switch f[0] {
	case "total":
		l.setTotal(t, line)
		pod.Settled = false
	case "settled":
		pod.Settled = true
	case "+":
		pod.Containers = append(pod.Containers, pools.Container{
			ID: fmt.Sprint("c", l.clock), Name: f[1], State: pools.Running, CreatedAt: l.clock,
			Resources: l.resources(t, slices.DeleteFunc(slices.Clone(f[2:]), isDevices)), Devices: slices.ContainsFunc(f[2:], isDevices),
		})
	case "-":
		ctr := newest()
		ctr.State, ctr.FinishedAt = pools.Exited, l.clock
	case "=":
		newest().Resources = l.resources(t, f[2:])
		pod.Settled = false
	default:
		t.Fatalf("unknown step %q", line)
	}
	plan := checkedBuild(t, l.in)
	l.in.Previous = plan.Assignments
	return plan
}

// outcome returns the CPUs of the containers that the row names.
func (l *life) outcome(plan pools.Plan, want string) string {
	var all []string
	for part := range strings.SplitSeq(want, ", ") {
		name, _, _ := strings.Cut(part, " ")
		got := name + " missing"
		for _, at := range plan.Pods[0].Containers {
			if at.Name != name || at.State == pools.Exited && strings.HasPrefix(got, name+" own") {
				continue
			}
			n := at.CPUs.Len()
			switch {
			case at.Refused != nil:
				got = name + " refused"
			case at.State == pools.Exited:
				got = fmt.Sprintf("%s held %d", name, n)
			case at.Exclusive:
				got = fmt.Sprintf("%s own %d", name, n)
			case at.InPodPool() && at.Quota != 0:
				got = fmt.Sprintf("%s pool %d quota", name, n)
			case at.InPodPool():
				got = fmt.Sprintf("%s pool %d", name, n)
			default:
				got = name + " shared"
			}
		}
		all = append(all, got)
	}
	return strings.Join(all, ", ")
}

// TestPodLevelRows checks each row of the decision table, in both modes and in all orders of
// creation.
func TestPodLevelRows(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/pod-level/rows.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		r := parseRow(t, f)
		for mode, want := range r.want {
			t.Run(f.Name+"/"+string(mode), func(t *testing.T) {
				for _, order := range r.orders() {
					l := newLife(t, r, mode)
					var plan pools.Plan
					for _, line := range order {
						plan = l.step(t, line)
					}
					if got := l.outcome(plan, want); got != want {
						t.Errorf("%q: %s; want %s\n%s", order, got, want, format(plan))
					}
				}
			})
		}
	}
}

// TestPodLevelMovesNoContainer checks that the pod's CPUs stay the same from its sandbox on.
func TestPodLevelMovesNoContainer(t *testing.T) {
	for _, steps := range [][]string{
		{"+ A full", "+ B full", "+ C full", "- B", "+ B full"},
		{"+ A full", "+ B cpu=1", "- A", "- B", "+ B cpu=1", "+ A full"},
		{"+ I full", "- I", "+ A cpu=2", "+ B full"},
		{"+ S cpu=1", "+ I full", "- I", "+ A full", "+ B full"},
	} {
		l := newLife(t, row{total: "total cpu=4"}, "")
		plan := checkedBuild(t, l.in)
		l.in.Previous = plan.Assignments
		had := held(plan)
		if had.Len() != 4 {
			t.Fatalf("the pod has %s from its sandbox on; want 4 CPUs", had)
		}
		for _, line := range steps {
			if got := held(l.step(t, line)); !got.Equal(had) {
				t.Errorf("%q: CPUs of the pod after %s = %s; want %s", steps, line, got, had)
			}
		}
	}
}

// held returns the CPUs of all assignments.
func held(plan pools.Plan) cpuset.Set {
	var all cpuset.Set
	for _, a := range plan.Assignments {
		all = all.Union(a.CPUs)
	}
	return all
}

// TestPodLevelUpgrade starts with the records of a build that gave the pod's total to each
// container. The oldest container's CPUs stay as the pool of the pod.
func TestPodLevelUpgrade(t *testing.T) {
	l := newLife(t, row{total: "total cpu=4"}, "")
	l.in.Pods[0].Containers = []pools.Container{
		{ID: "c1", Name: "C", State: pools.Running, CreatedAt: 1, Resources: l.in.Pods[0].Resources},
		{ID: "c2", Name: "A", State: pools.Running, CreatedAt: 2, Resources: l.in.Pods[0].Resources},
		{ID: "c3", Name: "B", State: pools.Running, CreatedAt: 3, Resources: l.in.Pods[0].Resources},
	}
	l.in.Previous = must(parseAssignments("a/A 2-5\na/B 6-9\na/C 10-13\n"))(t)
	plan := checkedBuild(t, l.in)
	for _, at := range plan.Pods[0].Containers {
		if !at.InPodPool() || !at.CPUs.Equal(cpuset.Range(10, 13)) {
			t.Errorf("%s has %s, in the pod's pool: %t; want 10-13 of the oldest container\n%s", at.Name, at.CPUs, at.InPodPool(), format(plan))
		}
	}
}

// TestRemovedQuotas checks that a pod keeps no quota if the runtime records that the quotas of
// its containers are removed, as containerd does after a resize.
func TestRemovedQuotas(t *testing.T) {
	l := newLife(t, row{total: "total cpu=4"}, pools.PodLevelPod)
	var plan pools.Plan
	for _, step := range []string{"+ A full", "+ B full", "= A shares=4096 quota=-1 period=100000", "= B shares=4096 quota=-1 period=100000"} {
		plan = l.step(t, step)
	}
	if pod := plan.Pods[0]; !pod.Unlimited || pod.Quota != 0 {
		t.Errorf("the slice of the pod is unlimited: %t, with quota %d; want no quota", pod.Unlimited, pod.Quota)
	}
}
