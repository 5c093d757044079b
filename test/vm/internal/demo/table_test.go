package demo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// container makes a row in which kernel and daemon agree.
func container(name string, pool pools.Pool, cpus cpuset.Set, change func(*row)) row {
	r := row{
		Placement: pools.Placement{ID: name, Name: "app", State: pools.Running, Pool: pool, CPUs: cpus, Exclusive: pool == pools.Guaranteed},
		pod:       "default/" + name,
		kernel: view{
			State:   cgroup.State{Path: cgroup.Path(name + ".scope"), Effective: cpus, Weight: 100, Quota: -1},
			allowed: []string{cpus.String()}, cores: 1, nodes: cpuset.Of(0),
		},
	}
	r.Reason.Text = "because " + name
	if change != nil {
		change(&r)
	}
	return r
}

func TestDisagreement(t *testing.T) {
	own, shared := cpuset.Range(4, 5), cpuset.Range(2, 3)
	for name, test := range map[string]struct {
		change func(*row)
		want   string // "" if all agree
	}{
		"agree":     {change: nil},
		"effective": {func(r *row) { r.kernel.Effective = cpuset.Of(4, 6) }, "cpuset.cpus.effective is 4,6"},
		"allowed":   {func(r *row) { r.kernel.allowed = []string{"4-5", "5"} }, "its processes may run on 4-5 and 5"},
		"empty":     {func(r *row) { r.kernel.allowed = nil }, "its processes may run on nothing"},
		"quota":     {func(r *row) { r.kernel.Quota = 200_000 }, "cpu.max has a quota of 200000 us"},
		"weight":    {func(r *row) { r.Shares = 512 }, "cpu.weight is 100, not 59"},
		"annotated": {func(r *row) { r.Shares, r.kernel.Weight = 512, 59 }, ""},
		"gone":      {func(r *row) { r.kernel = view{} }, "has no cgroup"},
		// Each is on its desired CPUs, but these overlap.
		"overlap": {func(r *row) { *r = container("own", pools.Guaranteed, shared, nil) }, "share CPU 2-3, which one of them has exclusively"},
	} {
		t.Run(name, func(t *testing.T) {
			err := disagreement([]row{container("own", pools.Guaranteed, own, test.change), container("shared", pools.Shared, shared, nil)})
			if test.want == "" {
				if err != nil {
					t.Errorf("disagreement = %v; want none", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("disagreement = %v; want %q", err, test.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	rows := []row{
		container("own", pools.Guaranteed, cpuset.Range(4, 5), nil),
		container("moved", pools.Shared, cpuset.Range(2, 3), func(r *row) {
			r.kernel.Effective = cpuset.Range(0, 7)
			r.Reason.Text = strings.Repeat("many words ", 9)
		}),
		container("own", pools.Guaranteed, cpuset.Range(2, 3), func(r *row) { r.Kind = pools.Infra }),
		container("shifted", pools.Shared, cpuset.Range(2, 3), func(r *row) {
			r.Kind, r.Name, r.kernel.allowed = pools.Infra, "", []string{"0-7"}
		}),
	}
	const want = `
                            cpupoold:         kernel:
                                              cpuset.cpus  Cpus_         whole  NUMA   cpu.
pod              container  pool        CPUs  .effective   allowed_list  cores  nodes  weight  reason
default/own      app        guaranteed  4-5   4-5          4-5           1      0      100     because own
default/moved    app        shared      2-3   0-7          2-3           1      0      100     DIFFERS: cpuset.cpus.effective is 0-7; many
                                                                                               words many words many words many words many
                                                                                               words many words many words many words many
                                                                                               words
default/shifted  (pause)    shared      2-3   2-3          0-7           1      0      100     DIFFERS: its processes may run on 0-7;
                                                                                               because shifted
`
	got := table(rows)
	if d := cmp.Diff(want, "\n"+got); d != "" {
		t.Errorf("table (-want +got):\n%s", d)
	}
	for line := range strings.Lines(got) {
		if len(line) > width+1 {
			t.Errorf("line of %d characters: %s", len(line)-1, line)
		}
	}
}

func TestRefusals(t *testing.T) {
	problems := []pools.Problem{
		{Pod: "default/a", Reason: pools.Reason{Text: "no"}},
		{Pod: "default/b", Container: "app", Reason: pools.Reason{Text: strings.Repeat("refused ", 16)}},
	}
	want := "problem:  default/a: no\n" +
		"problem:  default/b/app: " + strings.Repeat("refused ", 13) + "refused\n" +
		"          refused refused\n"
	if d := cmp.Diff(want, refusals(problems)); d != "" {
		t.Errorf("refusals (-want +got):\n%s", d)
	}
	if got := refusals(nil); got != "" {
		t.Errorf("refusals of nothing = %q", got)
	}
}
