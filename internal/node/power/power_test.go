package power_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/node/power"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// sysfs returns a tree of testdata.
func sysfs(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	a, err := txtar.ParseFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	tree := make(fstest.MapFS)
	for _, f := range a.Files {
		tree[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return tree
}

// writable makes a tree writable. Its writes fail with the errors of the kernel.
func writable(tree fstest.MapFS) tune.Dir {
	return tune.Dir{FS: tree, WriteFile: func(name, value string) error {
		f := tree[name]
		dir := filepath.Dir(name)
		switch text := func(file string) string { return string(tree[dir+"/"+file].Data) }; {
		case f == nil:
			return fs.ErrNotExist
		case strings.HasSuffix(name, "scaling_governor") && !slices.Contains(strings.Fields(text("scaling_available_governors")), value):
			return syscall.EINVAL
		case strings.HasSuffix(name, "energy_performance_preference"):
			if strings.TrimSpace(text("scaling_governor")) == "performance" && value != "performance" {
				return syscall.EBUSY // intel_pstate, amd-pstate
			}
		}
		tree[name] = &fstest.MapFile{Data: []byte(value + "\n")}
		return nil
	}}
}

func TestRead(t *testing.T) {
	for name, want := range map[string]string{
		"intel_pstate":   "4 policies of intel_pstate, powersave of 2, balance_performance of 5; 4 CPUs with POLL/0 C1/1 C1E/4 C6/170",
		"acpi-cpufreq":   "2 policies of acpi-cpufreq, ondemand of 6,  of 0; 4 CPUs with POLL/0 C1/1 C2/18",
		"amd-pstate-epp": "2 policies of amd-pstate-epp, powersave of 2, performance of 5; 2 CPUs with POLL/0 C1/1 C2/18 C3/350",
		"none":           "nothing",
	} {
		m, err := power.Read(sysfs(t, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := summary(m); got != want {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
	m, err := power.Read(fstest.MapFS{
		"devices/system/cpu/cpufreq/policy0/related_cpus":     {Data: []byte("0 x\n")},
		"devices/system/cpu/cpufreq/policy1/scaling_governor": {Data: []byte("performance\n")},
		"devices/system/cpu/cpu0/cpuidle/state0/latency":      {Data: []byte("-1\n")},
	})
	if len(m.Policies) != 0 || len(m.Idle) != 0 || err == nil || !strings.Contains(err.Error(), "policy0") || !strings.Contains(err.Error(), "CPU 0: state0") {
		t.Errorf("damaged: %+v, %v", m, err)
	}
}

// busy is sysfs while all CPUs of policy1 are offline.
type busy struct{ fstest.MapFS }

func (b busy) Open(name string) (fs.File, error) {
	if strings.Contains(name, "/policy1/") {
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EBUSY}
	}
	return b.MapFS.Open(name)
}

// TestOfflineCPUs checks that the policy of offline CPUs is reported as asleep, without an
// error.
func TestOfflineCPUs(t *testing.T) {
	tree := busy{sysfs(t, "intel_pstate")}
	m, err := power.Read(tree)
	if err != nil || len(m.Policies) != 3 || !slices.Equal(m.Asleep, []int{1}) {
		t.Errorf("%d policies, asleep %v, %v; want 3 and policy 1", len(m.Policies), m.Asleep, err)
	}
	seen, err := power.NewHost(tune.Dir{FS: tree}).Read(t.Context())
	var asleep []string
	for _, o := range seen {
		if o.Asleep {
			asleep = append(asleep, o.String())
		}
	}
	if err != nil || !slices.Equal(asleep, []string{"governor/1", "epp/1"}) {
		t.Errorf("asleep: %v, %v; want %v", asleep, err, []string{"governor/1", "epp/1"})
	}
}

func summary(m power.Machine) string {
	if len(m.Policies) == 0 && len(m.Idle) == 0 {
		return "nothing"
	}
	var b strings.Builder
	p := m.Policies[0]
	b.WriteString(strings.Join([]string{
		strconv.Itoa(len(m.Policies)), " policies of ", p.Driver, ", ", p.Governor, " of ", strconv.Itoa(len(p.Governors)), ", ", p.Preference, " of ", strconv.Itoa(len(p.Preferences)),
		"; ", strconv.Itoa(len(m.Idle)), " CPUs with",
	}, ""))
	for _, s := range m.Idle[0] {
		b.WriteString(" " + s.Name + "/" + strconv.Itoa(int(s.Latency)))
	}
	return b.String()
}

func TestParse(t *testing.T) {
	all := []power.Feature{power.CStates, power.Governor, power.Preference}
	value := func(s string) workload.PowerValue { return workload.PowerValue{Key: "k", Value: s} }
	for name, c := range map[string]struct {
		asked   workload.PowerAsked
		allowed []power.Feature
		want    power.Ask
		errs    []string
	}{
		"nothing":          {},
		"disable":          {workload.PowerAsked{CStates: value("disable")}, all, power.Ask{Limited: true}, nil},
		"latency":          {workload.PowerAsked{CStates: value("max_latency:10")}, all, power.Ask{Limited: true, Latency: 10}, nil},
		"latency 0":        {workload.PowerAsked{CStates: value("max_latency:0")}, all, power.Ask{Limited: true}, nil},
		"enable":           {workload.PowerAsked{CStates: value("enable")}, all, power.Ask{Limited: true, Latency: ^uint64(0)}, nil},
		"all three":        {workload.PowerAsked{CStates: value("disable"), Governor: value("performance"), Preference: value("balance_power")}, all, power.Ask{Limited: true, Governor: "performance", Preference: "balance_power"}, nil},
		"not allowed":      {workload.PowerAsked{CStates: value("disable"), Governor: value("performance")}, []power.Feature{power.CStates}, power.Ask{Limited: true}, []string{`annotation k: "performance": pods may not ask for it here: the configuration's power does not have governor`}},
		"bad values":       {workload.PowerAsked{CStates: value("Disable"), Governor: value("../x"), Preference: value("")}, all, power.Ask{}, []string{"write enable, disable or max_latency", "not a valid name", "not a valid name"}},
		"negative latency": {workload.PowerAsked{CStates: value("max_latency:-1"), Governor: value("schedutil")}, all, power.Ask{Governor: "schedutil"}, []string{"is no latency"}},
		"huge latency":     {workload.PowerAsked{CStates: value("max_latency:4294967296")}, all, power.Ask{}, []string{"is no latency"}},
	} {
		got, errs := power.Parse(c.asked, c.allowed)
		if diff := cmp.Diff(c.want, got); diff != "" || len(errs) != len(c.errs) {
			t.Errorf("%s: %v (-want +got):\n%s", name, errs, diff)
			continue
		}
		for i, err := range errs {
			if !strings.Contains(err.Error(), c.errs[i]) {
				t.Errorf("%s: %v; want %q", name, err, c.errs[i])
			}
		}
	}
}

func TestPlan(t *testing.T) {
	fast := power.Ask{Governor: "performance"}
	owner := func(name string, ask power.Ask, cpus ...int) power.Owner {
		return power.Owner{Name: name, CPUs: cpuset.Of(cpus...), Ask: ask}
	}
	for name, c := range map[string]struct {
		tree     string
		owners   []power.Owner
		want     []string // kind/name=value
		problems []string
	}{
		"no request": {"intel_pstate", []power.Owner{owner("a", power.Ask{}, 1)}, nil, nil},
		"all of it": {"intel_pstate", []power.Owner{owner("a", power.Ask{Governor: "performance", Preference: "performance", Limited: true, Latency: 4}, 2)},
			[]string{"cstate/2/0=0", "cstate/2/1=0", "cstate/2/2=0", "cstate/2/3=1", "epp/2=performance", "governor/2=performance"}, nil},
		"no idle state but polling": {"amd-pstate-epp", []power.Owner{owner("a", power.Ask{Limited: true}, 0)},
			[]string{"cstate/0/0=0", "cstate/0/1=1", "cstate/0/2=1", "cstate/0/3=1"}, nil},
		"a preference that the governor does not leave": {"intel_pstate", []power.Owner{owner("a", power.Ask{Governor: "performance", Preference: "power"}, 2), owner("b", power.Ask{Preference: "power"}, 3)},
			[]string{"epp/3=power", "governor/2=performance"}, []string{"a: energy preference power: CPUs 2 get the governor performance"}},
		"unknown governor": {"intel_pstate", []power.Owner{owner("a", power.Ask{Governor: "schedutil"}, 0, 1)}, nil,
			[]string{"a: governor schedutil: CPUs 0-1 do not support it; write one of performance, powersave"}},
		"a policy with another owner": {"acpi-cpufreq", []power.Owner{owner("a", fast, 0), owner("b", power.Ask{Governor: "powersave"}, 1)}, nil,
			[]string{"a: governor performance: CPUs 0 share their frequency with CPUs 1", "b: governor powersave: CPUs 1 share"}},
		"a policy of two owners that agree": {"acpi-cpufreq", []power.Owner{owner("b", fast, 0), owner("a", fast, 1, 2)}, []string{"governor/0=performance"},
			[]string{"a: governor performance: CPUs 2 share their frequency with CPUs 3"}},
		"no preference": {"acpi-cpufreq", []power.Owner{owner("a", power.Ask{Preference: "power"}, 2, 3)}, nil,
			[]string{"a: energy preference power: the kernel has no energy preference for CPUs 2-3"}},
		"nothing there": {"none", []power.Owner{owner("a", power.Ask{Governor: "performance", Limited: true}, 0, 1)}, nil,
			[]string{"a: C-states: the kernel has no idle states for CPUs 0-1", "a: governor performance: the kernel has no governor for CPUs 0-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := power.Read(sysfs(t, c.tree))
			if err != nil {
				t.Fatal(err)
			}
			values, problems := power.Plan(c.owners, m)
			var got []string
			for k, v := range values {
				got = append(got, k.String()+"="+v)
			}
			slices.Sort(got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if len(problems) != len(c.problems) {
				t.Fatalf("problems %v; want %v", problems, c.problems)
			}
			for i, p := range problems {
				if text := p.Owner + ": " + p.Text; !strings.HasPrefix(text, c.problems[i]) {
					t.Errorf("problem %q; want %q", text, c.problems[i])
				}
			}
			slices.Reverse(c.owners)
			if again, _ := power.Plan(c.owners, m); !maps.Equal(values, again) {
				t.Errorf("in another order: %v, and %v", values, again)
			}
		})
	}
}

// TestRestoreThroughTuner checks that package tune writes the values of a plan, and then
// restores every file of the tree.
func TestRestoreThroughTuner(t *testing.T) {
	for _, name := range []string{"intel_pstate", "acpi-cpufreq", "amd-pstate-epp"} {
		t.Run(name, func(t *testing.T) {
			tree := sysfs(t, name)
			before := make(map[string]string)
			for file, f := range tree {
				before[file] = strings.TrimSpace(string(f.Data))
			}
			dir := t.TempDir()
			passed := make(chan struct{}, 100)
			machine := tune.Machine{Possible: cpuset.Range(0, 3), Online: cpuset.Range(0, 3)}
			tuner := tune.New(tune.Options{
				Sources: []tune.Source{power.NewHost(writable(tree))}, Log: slog.New(slog.DiscardHandler), Changed: func() { passed <- struct{}{} },
				Undo: tune.Undo{File: dir + "/host.json", Mark: dir + "/mark", BootID: "b"},
			})
			done := make(chan struct{})
			ctx := t.Context()
			go func() { defer close(done); tuner.Run(ctx) }()
			m, err := power.Read(tree)
			if err != nil {
				t.Fatal(err)
			}
			values, problems := power.Plan([]power.Owner{{Name: "a", CPUs: cpuset.Range(0, 1), Ask: power.Ask{Governor: "performance", Limited: true}}}, m)
			if len(problems) > 0 || len(values) == 0 {
				t.Fatalf("plan: %v, %v", values, problems)
			}
			tuner.Set(tune.Desired{Values: values}, machine, cpuset.Range(0, 1))
			<-passed
			if governor := string(tree["devices/system/cpu/cpufreq/policy0/scaling_governor"].Data); governor != "performance\n" {
				t.Errorf("governor %q; want performance", governor)
			}
			if deepest := string(tree["devices/system/cpu/cpu1/cpuidle/state2/disable"].Data); deepest != "1\n" {
				t.Errorf("state 2 of CPU 1: disable is %q; want 1", deepest)
			}
			if v := tuner.View(); len(v.Stuck) > 0 || len(v.Problems) > 0 {
				t.Errorf("stuck %v, problems %v", v.Stuck, v.Problems)
			}
			tuner.Set(tune.Desired{}, machine, cpuset.Range(0, 1))
			<-passed
			after := make(map[string]string)
			for file, f := range tree {
				after[file] = strings.TrimSpace(string(f.Data))
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("restored (-before +after):\n%s", diff)
			}
		})
	}
}

func TestSourceRefusesOtherKnobs(t *testing.T) {
	tree := sysfs(t, "intel_pstate")
	source := power.NewHost(writable(tree))
	for _, k := range []tune.Knob{
		{Kind: power.KindCState, Name: "1"}, {Kind: power.KindCState, Name: "1/../2"}, {Kind: power.KindGovernor, Name: "../policy0"},
		{Kind: power.KindGovernor, Name: "0/1"}, {Kind: tune.IRQ, Name: "1"},
	} {
		if err := source.Write(t.Context(), k, "1"); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("write %s: %v; want an error before the file is opened", k, err)
		}
	}
	if err := source.Write(t.Context(), tune.Knob{Kind: power.KindGovernor, Name: "9"}, "performance"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing policy: %v", err)
	}
}
