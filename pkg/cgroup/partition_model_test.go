package cgroup_test

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// partitionWorld is a node with pods of two containers, whose partitions are made and
// removed by PlanPartitions.
type partitionWorld struct {
	t       *testing.T
	rules   testnode.PartitionRules
	kernel  cgroup.PartitionKernel
	tree    *testnode.Cgroups
	fs      *cgroup.FS
	rand    *rand.Rand
	online  cpuset.Set
	told    cpuset.Set // CPUs online at the last plan
	desired map[cgroup.Path]cgroup.DesiredPartition
	former  map[cgroup.Path]bool
	lossy   bool        // another process has made the kernel lose CPUs
	left    int         // writes until the next fault; -1: none comes
	barred  cgroup.Path // for which every write is refused; "": none
}

const worldCPUs = 12

var housekeeping = cpuset.Range(0, 1)

func newPartitionWorld(t *testing.T, seed uint64, major, minor int) *partitionWorld {
	rules := testnode.PartitionsLike(major, minor, 0)
	all := cpuset.Range(0, worldCPUs-1)
	tree := testnode.NewCgroups(testnode.CgroupConfig{Possible: all, ClearPopulated: major >= 7, Partitions: rules})
	tree.MkdirAll("system.slice/cron.service")
	tree.MkdirAll("kubepods.slice")
	w := &partitionWorld{t: t, rules: rules, kernel: cgroup.PartitionsOf(major, minor), tree: tree, fs: cgroup.New(tree),
		rand: rand.New(rand.NewPCG(seed, 1)), online: all, told: all, left: -1,
		desired: make(map[cgroup.Path]cgroup.DesiredPartition), former: make(map[cgroup.Path]bool)}
	tree.Intercept(w.intercept)
	return w
}

// intercept stands before each write of the plan's.
func (w *partitionWorld) intercept(x testnode.CgroupWrite) error {
	dir, file := path.Split(x.Name)
	if file == cgroup.FilePartition && x.Value != string(cgroup.MemberPartition) {
		now, err := w.tree.ReadFile(x.Name, 1<<10)
		if err != nil || strings.TrimSpace(string(now)) != string(cgroup.MemberPartition) {
			w.t.Errorf("%s is written over %q of %s; want member before", x.Value, now, dir)
		}
	}
	if w.left == 0 {
		return syscall.EIO
	}
	if w.left--; w.barred != "" && dir == string(w.barred)+"/" {
		return syscall.EBUSY
	}
	return nil
}

// bar has all writes for a cgroup of some partition's refused.
func (w *partitionWorld) bar() {
	p, some := w.someone()
	if !some || w.rand.IntN(3) > 0 {
		w.barred = ""
		return
	}
	chain := []cgroup.Path{p, p.Parent(), p.Parent().Parent()}
	w.barred = chain[w.rand.IntN(len(chain))]
}

func (w *partitionWorld) input(not, stuck map[cgroup.Path]string) cgroup.PartitionInput {
	in := cgroup.PartitionInput{Kernel: w.kernel, Online: w.told, Housekeeping: housekeeping, Stuck: stuck}
	var leaves []cgroup.Path
	for p, want := range w.desired {
		want.Not = not[p]
		in.Desired = append(in.Desired, want)
		leaves = append(leaves, p)
	}
	for p := range w.former {
		in.Former = append(in.Former, p)
		leaves = append(leaves, p)
	}
	var err error
	if in.View, err = w.fs.ReadPartitions(leaves); err != nil {
		w.t.Fatal(err)
	}
	return in
}

// settle carries out steps until none is left, or until the fault. The first step does
// not know yet which CPUs were plugged or unplugged.
func (w *partitionWorld) settle() (map[cgroup.Path]cgroup.PartitionOutcome, bool) {
	w.t.Helper()
	not, stuck := make(map[cgroup.Path]string), make(map[cgroup.Path]string)
	for range 100 {
		step := cgroup.PlanPartitions(w.input(not, stuck))
		if stale := !w.told.Equal(w.online); stale {
			w.told = w.online
		} else if len(step.Writes) == 0 {
			return step.Outcomes, true
		}
		for _, x := range step.Writes {
			err := w.fs.Apply(x.Write)
			w.check()
			if err != nil && w.left == 0 {
				return nil, false // and a daemon that knows nothing goes on
			}
			if err == nil {
				continue
			}
			if x.Path != w.barred {
				w.t.Errorf("the kernel refuses a write that was planned: %v", err)
			}
			if _, isDesired := w.desired[x.Leaf]; isDesired && not[x.Leaf] == "" {
				not[x.Leaf] = err.Error()
			} else {
				stuck[x.Stuck()] = err.Error()
			}
			break
		}
	}
	w.t.Fatal("steps do not end")
	return nil, false
}

// check holds after each write.
func (w *partitionWorld) check() {
	w.t.Helper()
	if w.tree.Crashed() {
		w.t.Fatal("the kernel has crashed")
	}
	if leaked := w.tree.Leaked(); !leaked.IsEmpty() && !w.lossy {
		w.t.Fatalf("leaked CPUs = %s; want none", leaked)
	}
	if root := w.root(); housekeeping.Overlaps(w.online) && !root.Overlaps(housekeeping) {
		w.t.Fatalf("CPUs of the root = %s; want a management or shared CPU", root)
	}
}

func (w *partitionWorld) root() cpuset.Set {
	st, err := w.fs.Read("")
	if err != nil {
		w.t.Fatal(err)
	}
	return st.Effective
}

// rested checks that no step is left.
func (w *partitionWorld) rested(outcomes map[cgroup.Path]cgroup.PartitionOutcome) {
	w.t.Helper()
	in := w.input(nil, nil)
	for p, n := range in.View.Nodes {
		want, isDesired := w.desired[p]
		switch out := outcomes[p]; {
		case isDesired && out.Phase == cgroup.PartitionInForce:
			if !n.State.Is(want.Type) || !n.Effective.Equal(want.CPUs.Intersection(w.online)) || n.Effective.Overlaps(in.View.Root) {
				w.t.Errorf("%s in force = %s with %s, root %s; want %+v", p, n.State, n.Effective, in.View.Root, want)
			}
		case isDesired && out.Phase == cgroup.PartitionUnderway:
			w.t.Errorf("%s is in progress without a step", p)
		case isDesired && out.Phase == cgroup.PartitionRefused || w.former[p]:
			if !n.State.Is(cgroup.MemberPartition) || !n.Exclusive.IsEmpty() {
				w.t.Errorf("%s = %s with list %q; want no partition", p, n.State, n.Exclusive)
			}
		}
		if n.State.Invalid {
			w.t.Errorf("state of %s = %s; want it valid", p, n.State)
		}
		var below cpuset.Set
		ancestor := false
		for q, child := range in.View.Nodes {
			if q.Parent() == p {
				below, ancestor = below.Union(child.Exclusive), true
			}
		}
		for q, want := range w.desired { // a waiting cgroup has its requested CPUs by then
			if strings.HasPrefix(string(q), string(p)+"/") {
				below = below.Union(want.CPUs)
			}
		}
		if over := n.Exclusive.Difference(below).Intersection(w.root()); ancestor && !over.IsEmpty() {
			w.t.Errorf("%s keeps %s in its list without a user", p, over)
		}
	}
}

// free returns the CPUs that no request includes and the root has.
func (w *partitionWorld) free() []int {
	free := w.root().Difference(housekeeping)
	for p, want := range w.desired {
		free = free.Difference(want.CPUs)
		if st, err := w.fs.Read(p); err == nil {
			free = free.Difference(st.CPUs) // a daemon would have written the requested CPUs
		}
	}
	for p := range w.former {
		if st, err := w.fs.ReadFile(p, cgroup.FileExclusive); err == nil {
			held, _ := cpuset.Parse(strings.TrimSpace(string(st)))
			free = free.Difference(held)
		}
	}
	cpus := slices.Collect(free.All())
	w.rand.Shuffle(len(cpus), func(i, j int) { cpus[i], cpus[j] = cpus[j], cpus[i] })
	return cpus
}

func (w *partitionWorld) someone() (cgroup.Path, bool) {
	var all []cgroup.Path
	for p := range w.desired {
		all = append(all, p)
	}
	slices.Sort(all)
	if len(all) == 0 {
		return "", false
	}
	return all[w.rand.IntN(len(all))], true
}

func (w *partitionWorld) types() cgroup.PartitionType {
	return []cgroup.PartitionType{cgroup.RootPartition, cgroup.IsolatedPartition}[w.rand.IntN(2)]
}

// act makes one random event of a node, and returns its description.
func (w *partitionWorld) act() string {
	switch p, some := w.someone(); {
	case !some || w.rand.IntN(5) == 0:
		return w.start()
	default:
		acts := []func(cgroup.Path) string{w.resize, w.resize, w.retype, w.end, w.release, w.sibling, w.foreignMember, w.cutAncestor, w.plug}
		return acts[w.rand.IntN(len(acts))](p)
	}
}

func (w *partitionWorld) start() string {
	free := w.free()
	p := cgroup.Path(fmt.Sprintf("kubepods.slice/kubepods-pod%d.slice/c%d.scope", w.rand.IntN(3), w.rand.IntN(2)))
	if _, known := w.desired[p]; known || len(free) == 0 {
		return "nothing"
	}
	w.tree.MkdirAll(string(p))
	delete(w.former, p)
	cpus := cpuset.Of(free[:1+w.rand.IntN(min(len(free), 4))]...)
	w.foreign(p.Join(cgroup.FileCPUs), cpus.String())
	w.desired[p] = cgroup.DesiredPartition{Path: p, Type: w.types(), CPUs: cpus}
	return fmt.Sprintf("%s starts on %s", p, cpus)
}

func (w *partitionWorld) foreign(name cgroup.Path, value string) {
	if err := w.tree.Write(string(name), value); err != nil {
		w.t.Fatal(err)
	}
}

func (w *partitionWorld) resize(p cgroup.Path) string {
	want := w.desired[p]
	cpus := slices.Collect(want.CPUs.All())
	keep := cpuset.Of(cpus[:w.rand.IntN(len(cpus)+1)]...)
	if free := w.free(); len(free) > 0 {
		keep = keep.Union(cpuset.Of(free[:w.rand.IntN(min(len(free), 3)+1)]...))
	}
	if keep.IsEmpty() {
		return "nothing"
	}
	want.CPUs = keep
	w.desired[p] = want
	return fmt.Sprintf("%s shall have %s", p, keep)
}

func (w *partitionWorld) retype(p cgroup.Path) string {
	want := w.desired[p]
	want.Type = w.types()
	w.desired[p] = want
	return fmt.Sprintf("%s should be %s", p, want.Type)
}

// end removes the cgroup without a word.
func (w *partitionWorld) end(p cgroup.Path) string {
	n := w.input(nil, nil).View.Nodes[p]
	w.lossy = w.lossy || n.State.Invalid && n.State.Why == ""
	delete(w.desired, p)
	w.former[p] = true
	if err := w.tree.Remove(string(p)); err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("%s ends", p)
}

func (w *partitionWorld) release(p cgroup.Path) string {
	delete(w.desired, p)
	w.former[p] = true
	return fmt.Sprintf("%s shall be none", p)
}

// sibling gives another container of the pod a cpuset around everything.
func (w *partitionWorld) sibling(p cgroup.Path) string {
	s := p.Parent().Join("sidecar.scope")
	w.tree.MkdirAll(string(s))
	value := []string{"0-11", "0-1", w.desired[p].CPUs.String(), "\n"}[w.rand.IntN(4)]
	w.foreign(s.Join(cgroup.FileCPUs), value)
	return fmt.Sprintf("%s has cpuset %q", s, value)
}

func (w *partitionWorld) foreignMember(p cgroup.Path) string {
	w.foreign(p.Join(cgroup.FilePartition), "member")
	return fmt.Sprintf("somebody makes %s a member", p)
}

func (w *partitionWorld) cutAncestor(p cgroup.Path) string {
	w.lossy = w.lossy || w.rules.SlowRemoval // CPUs that have not come back yet do not come then
	w.foreign(p.Parent().Join(cgroup.FileExclusive), "\n")
	return fmt.Sprintf("another process clears the list of %s", p.Parent())
}

// plug takes all CPUs of an owner offline, or any two, or all that are in no partition;
// or brings offline ones back.
func (w *partitionWorld) plug(p cgroup.Path) string {
	gone := cpuset.Range(0, worldCPUs-1).Difference(w.online)
	if gone.IsEmpty() {
		switch gone = w.desired[p].CPUs; w.rand.IntN(4) {
		case 0, 1:
			gone = cpuset.Of(2+w.rand.IntN(worldCPUs-2), 2+w.rand.IntN(worldCPUs-2))
		case 2:
			if root := w.root(); !root.Equal(w.online) {
				gone = root
			}
		}
		w.online = w.online.Difference(gone)
	} else {
		w.online = cpuset.Range(0, worldCPUs-1)
	}
	w.tree.SetOnline(w.online)
	return fmt.Sprintf("CPUs %s are plugged out or in", gone)
}

// TestPartitionModel makes random events of nodes, with a write that fails now and
// then, on each kind of kernel.
func TestPartitionModel(t *testing.T) {
	for _, kernel := range [][2]int{{6, 11}, {6, 12}, {6, 18}, {6, 19}, {7, 0}} {
		t.Run(fmt.Sprintf("%d.%d", kernel[0], kernel[1]), func(t *testing.T) {
			inForce := 0
			for seed := range uint64(40) {
				w := newPartitionWorld(t, seed, kernel[0], kernel[1])
				var story []string
				for range 30 {
					story = append(story, w.act())
					if w.bar(); w.barred != "" {
						outcomes, _ := w.settle()
						for p, o := range outcomes {
							if o.Phase == cgroup.PartitionUnderway {
								t.Errorf("%s is in progress, and the only step is for %s", p, w.barred)
							}
						}
						w.barred = ""
					}
					w.left = w.rand.IntN(12) - 1
					outcomes, done := w.settle()
					if w.left = -1; !done {
						outcomes, _ = w.settle()
					}
					for range removal611 { // until the kernel has given CPUs back
						outcomes, _ = w.settle()
					}
					w.rested(outcomes)
					for _, o := range outcomes {
						if o.Phase == cgroup.PartitionInForce {
							inForce++
						}
					}
					if t.Failed() {
						t.Fatalf("seed %d:\n%s\n%v", seed, strings.Join(story, "\n"), outcomes)
					}
				}
				w.finish()
				if t.Failed() {
					t.Fatalf("seed %d, at the end", seed)
				}
			}
			if inForce < 1000 {
				t.Errorf("partitions in force = %d; want at least 1000", inForce)
			}
		})
	}
}

// removal611 is the number of reads of the root before kernel 6.11 shows the CPUs of a
// removed partition.
const removal611 = 3

// finish takes everything away.
func (w *partitionWorld) finish() {
	w.t.Helper()
	for p := range w.desired {
		w.release(p)
	}
	for range removal611 {
		w.settle()
	}
	for p, n := range w.input(nil, nil).View.Nodes {
		if over := n.Exclusive.Intersection(w.root()); !over.IsEmpty() || !n.State.Is(cgroup.MemberPartition) {
			w.t.Errorf("%s = %s, with %s in its list; want a member without CPUs of the root", p, n.State, n.Exclusive)
		}
	}
	if root, want := w.root(), w.online.Difference(w.tree.Leaked()); !root.Equal(want) {
		w.t.Errorf("the root has %s, want %s", root, want)
	}
}
