//go:build guest

package live_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// handovers is the number of handovers of TestHandover.
const handovers = 200

// TestHandover exchanges the CPUs of two busy owners many times, while a third owner keeps its CPU and a foreign task spins. No
// task of an owner may be reported, the third CPU is watched without a gap, and the counts are equal to the counts of ftrace.
func TestHandover(t *testing.T) {
	n := newNode(t)
	groups := []string{"a", "b"}
	cpu := []int{2, 3}
	n.group("a", cpuset.Of(2))
	n.group("b", cpuset.Of(3))
	n.group("c", cpuset.Of(1))
	for _, g := range []string{"a", "b", "c"} {
		n.start(busy, g)
	}
	stray := n.start(spinner, "stray")
	p := n.open()
	rec := n.record(cpuset.Range(1, 3))
	windows := make(map[int][]window)
	handed := cpuset.Range(2, 3)
	own := func() (begin [2]time.Duration) {
		begin[0] = n.now()
		n.own(p, schedwatch.Owner{CPUs: cpuset.Of(1), Cgroups: []string{"c"}},
			schedwatch.Owner{CPUs: cpuset.Of(cpu[0]), Cgroups: groups[:1]}, schedwatch.Owner{CPUs: cpuset.Of(cpu[1]), Cgroups: groups[1:]})
		begin[1] = n.now()
		return begin
	}
	first := own()
	begin := first
	for i := range handovers {
		if answer := stray.do(cpu[i%2], 500*time.Microsecond); !strings.HasPrefix(answer, "spun ") {
			t.Fatal(answer)
		}
		end := [2]time.Duration{n.now()}
		p.Release(handed)
		end[1] = n.now()
		for k := range 2 {
			windows[cpu[k]] = append(windows[cpu[k]], window{begin, end, groups[k]})
		}
		cpu[0], cpu[1] = cpu[1], cpu[0]
		for k := range 2 {
			n.write(groups[k]+"/cpuset.cpus", cpuset.Of(cpu[k]).String())
		}
		begin = own()
	}
	end := [2]time.Duration{n.now()}
	p.Release(cpuset.Range(1, 3))
	end[1] = n.now()
	for k := range 2 {
		windows[cpu[k]] = append(windows[cpu[k]], window{begin, end, groups[k]})
	}
	windows[1] = []window{{first, end, "c"}}

	owners := map[string]map[int]bool{"a": n.threads("a"), "b": n.threads("b"), "c": n.threads("c")}
	rec.end()
	r, byCPU := n.reading(p)
	if wrong := users(r, "stray"); len(wrong) > 0 {
		t.Errorf("tasks of owners are reported: %v", wrong)
	}
	var spins uint64
	for id := 1; id <= 3; id++ {
		rec.compare(byCPU[id], rec.foreign(id, windows[id], owners))
		spins += byCPU[id].Foreign[schedwatch.User].Switches
		var least, most time.Duration
		for _, w := range windows[id] {
			least += w.end[0] - w.begin[1]
			most += w.end[1] - w.begin[0]
		}
		if got := byCPU[id].Watched; got < least || got > most {
			t.Errorf("CPU %d: watched for %v; want %v to %v", id, got, least, most)
		}
		t.Logf("CPU %d: watched for %v, from %v to %v, in %d windows", id, byCPU[id].Watched, least, most, len(windows[id]))
	}
	if spins < handovers {
		t.Errorf("%d switches of the foreign task; want at least %d", spins, handovers)
	}
}
