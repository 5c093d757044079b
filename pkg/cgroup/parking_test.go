package cgroup_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// parkingWorld is a node with a pod, and a parking.
func parkingWorld(t *testing.T, major, minor int) (*testnode.Cgroups, *cgroup.FS) {
	t.Helper()
	tree := testnode.NewCgroups(testnode.CgroupConfig{Possible: cpuset.Range(0, 7), ClearPopulated: major >= 7, Partitions: testnode.PartitionsLike(major, minor, 0)})
	tree.MkdirAll("kubepods.slice/pod.slice/app.scope")
	fs := cgroup.New(tree)
	if err := fs.MakeParking(); err != nil {
		t.Fatal(err)
	}
	return tree, fs
}

// carryOut writes the steps that lead to the desired partitions, and returns the writes.
func carryOut(t *testing.T, fs *cgroup.FS, kernel cgroup.PartitionKernel, online cpuset.Set, desired ...cgroup.DesiredPartition) (writes []string, outcomes map[cgroup.Path]cgroup.PartitionOutcome) {
	t.Helper()
	leaves := []cgroup.Path{cgroup.Parking, "kubepods.slice/pod.slice/app.scope"}
	for range 50 {
		view, err := fs.ReadPartitions(leaves)
		if err != nil {
			t.Fatal(err)
		}
		step := cgroup.PlanPartitions(cgroup.PartitionInput{Kernel: kernel, Desired: desired, Former: leaves, View: view, Online: online, Housekeeping: cpuset.Of(0, 1)})
		if len(step.Writes) == 0 {
			return writes, step.Outcomes
		}
		for _, w := range step.Writes {
			if err := fs.Apply(w.Write); err != nil {
				t.Fatalf("%s: %v", w, err)
			}
			writes = append(writes, string(w.Path)+" "+w.Property[len("cpuset.cpus."):]+"="+w.Value)
		}
	}
	t.Fatal("steps do not end")
	return nil, nil
}

// TestParkingPlans checks the order of writes. An owner's CPUs leave the parking from
// the leaf up before the owner takes them. CPUs that it releases go to the parking from
// the top down afterwards.
func TestParkingPlans(t *testing.T) {
	const app = "kubepods.slice/pod.slice/app.scope"
	park := func(cpus ...int) cgroup.DesiredPartition {
		return cgroup.DesiredPartition{Path: cgroup.Parking, Type: cgroup.IsolatedPartition, CPUs: cpuset.Of(cpus...)}
	}
	own := func(cpus ...int) cgroup.DesiredPartition {
		return cgroup.DesiredPartition{Path: app, Type: cgroup.RootPartition, CPUs: cpuset.Of(cpus...)}
	}
	all := cpuset.Range(0, 7)
	for _, kernel := range [][2]int{{6, 12}, {6, 18}, {7, 0}} {
		tree, fs := parkingWorld(t, kernel[0], kernel[1])
		for _, step := range []struct {
			name    string
			online  cpuset.Set
			desired []cgroup.DesiredPartition
			writes  []string
			root    string
		}{
			{"all is parked", all, []cgroup.DesiredPartition{park(4, 5, 6, 7)},
				[]string{"cpupoold exclusive=4-7", "cpupoold/parking exclusive=4-7", "cpupoold/parking partition=isolated"}, "0-3"},
			{"all stays parked", all, []cgroup.DesiredPartition{park(4, 5, 6, 7)}, nil, "0-3"},
			{"the owner has no cgroup yet", all, []cgroup.DesiredPartition{park(6, 7)},
				[]string{"cpupoold/parking exclusive=6-7", "cpupoold exclusive=6-7"}, "0-5"},
			{"the owner takes them", all, []cgroup.DesiredPartition{park(6, 7), own(4, 5)},
				[]string{"kubepods.slice exclusive=4-5", "kubepods.slice/pod.slice exclusive=4-5", app + " exclusive=4-5", app + " partition=root"}, "0-3"},
			{"the owner grows", all, []cgroup.DesiredPartition{park(7), own(4, 5, 6)},
				[]string{"cpupoold/parking exclusive=7", "cpupoold exclusive=7", "kubepods.slice exclusive=4-6", "kubepods.slice/pod.slice exclusive=4-6", app + " exclusive=4-6"}, "0-3"},
			{"the owner has all", all, []cgroup.DesiredPartition{own(4, 5, 6, 7)},
				[]string{"cpupoold/parking partition=member", "cpupoold/parking exclusive=\n", "cpupoold exclusive=\n",
					"kubepods.slice exclusive=4-7", "kubepods.slice/pod.slice exclusive=4-7", app + " exclusive=4-7"}, "0-3"},
			{"the owner shrinks", all, []cgroup.DesiredPartition{park(4), own(5, 6, 7)},
				[]string{app + " exclusive=5-7", "kubepods.slice/pod.slice exclusive=5-7", "kubepods.slice exclusive=5-7",
					"cpupoold exclusive=4", "cpupoold/parking exclusive=4", "cpupoold/parking partition=isolated"}, "0-3"},
			{"the owner ends", all, []cgroup.DesiredPartition{park(4, 5, 6, 7)},
				[]string{app + " partition=member", app + " exclusive=\n", "kubepods.slice/pod.slice exclusive=\n", "kubepods.slice exclusive=\n",
					"cpupoold exclusive=4-7", "cpupoold/parking exclusive=4-7"}, "0-3"},
			{"a CPU goes offline", all.Difference(cpuset.Of(7)), []cgroup.DesiredPartition{park(4, 5, 6)}, []string{"cpupoold/parking exclusive=4-6"}, "0-3"},
			{"and comes back", all, []cgroup.DesiredPartition{park(4, 5, 6, 7)}, []string{"cpupoold/parking exclusive=4-7"}, "0-3"},
			{"nothing is parked", all, nil, []string{"cpupoold/parking partition=member", "cpupoold/parking exclusive=\n", "cpupoold exclusive=\n"}, "0-7"},
		} {
			tree.SetOnline(step.online)
			writes, outcomes := carryOut(t, fs, cgroup.PartitionsOf(kernel[0], kernel[1]), step.online, step.desired...)
			if !slices.Equal(writes, step.writes) {
				t.Errorf("%v %s: %q, want %q", kernel, step.name, writes, step.writes)
			}
			for p, o := range outcomes {
				if o.Phase != cgroup.PartitionInForce {
					t.Errorf("%v %s: outcome of %s = %+v; want in force", kernel, step.name, p, o)
				}
			}
			if st, err := fs.Read(""); err != nil || st.Effective.String() != step.root {
				t.Errorf("%v %s: the root has %s, %v; want %s", kernel, step.name, st.Effective, err, step.root)
			}
		}
		if err := fs.RemoveParking(); err != nil {
			t.Error(err)
		}
		if _, err := fs.Read(cgroup.ParkingTop); !errors.Is(err, cgroup.ErrGone) {
			t.Errorf("after its removal: %v", err)
		}
		if leaked := tree.Leaked(); !leaked.IsEmpty() || tree.Crashed() {
			t.Errorf("%v: lost CPUs = %s; want none", kernel, leaked)
		}
	}
}

// TestParkingLeavesHousekeeping checks that the root keeps a management or shared CPU,
// whichever CPUs parking requests.
func TestParkingLeavesHousekeeping(t *testing.T) {
	_, fs := parkingWorld(t, 7, 0)
	for _, cpus := range []cpuset.Set{cpuset.Range(0, 7), cpuset.Range(0, 6)} {
		writes, outcomes := carryOut(t, fs, cgroup.PartitionsOf(7, 0), cpuset.Range(0, 7),
			cgroup.DesiredPartition{Path: cgroup.Parking, Type: cgroup.IsolatedPartition, CPUs: cpus})
		if o := outcomes[cgroup.Parking]; len(writes) > 0 || o.Phase != cgroup.PartitionRefused {
			t.Errorf("parking %s = %+v, with writes %q; want a refusal", cpus, o, writes)
		}
	}
}

// oddTree has a cgroup with an unknown value in cpuset.cpus.partition.
type oddTree struct {
	*testnode.Cgroups
	odd string
}

func (t oddTree) ReadFile(name string, limit int) ([]byte, error) {
	if name == t.odd+"/"+cgroup.FilePartition {
		return []byte("lender\n"), nil
	}
	return t.Cgroups.ReadFile(name, limit)
}

// TestUnknownStateOfOthers checks that an unknown partition state blocks partitions
// within that cgroup only.
func TestUnknownStateOfOthers(t *testing.T) {
	const app = "kubepods.slice/pod.slice/app.scope"
	for odd, want := range map[string]cgroup.PartitionPhase{"machine.slice": cgroup.PartitionInForce, "kubepods.slice": cgroup.PartitionRefused} {
		tree, _ := parkingWorld(t, 7, 0)
		tree.MkdirAll("machine.slice")
		fs := cgroup.New(oddTree{tree, odd})
		_, outcomes := carryOut(t, fs, cgroup.PartitionsOf(7, 0), cpuset.Range(0, 7),
			cgroup.DesiredPartition{Path: app, Type: cgroup.RootPartition, CPUs: cpuset.Of(4)})
		if got := outcomes[app]; got.Phase != want {
			t.Errorf("while %s is odd: %+v, want %s", odd, got, want)
		}
		if _, err := fs.Listed(); err != nil {
			t.Error(err)
		}
	}
}

// TestMakeParking checks that existing parts of the parking partition are kept if
// others are missing, and that foreign cgroups in it are reported.
func TestMakeParking(t *testing.T) {
	tree, fs := parkingWorld(t, 7, 0)
	if writes := tree.Writes(); len(writes) != 1 || writes[0] != (testnode.CgroupWrite{Name: "cpupoold/cgroup.subtree_control", Value: "+cpuset"}) {
		t.Errorf("writes = %v; want the controller only", writes)
	}
	if err := fs.MakeParking(); err != nil || len(tree.Writes()) != 1 {
		t.Errorf("second MakeParking = %v, writes %v; want no writes", err, tree.Writes())
	}
	if err := tree.Rmdir(string(cgroup.Parking)); err != nil {
		t.Fatal(err)
	}
	if err := fs.MakeParking(); err != nil {
		t.Error(err)
	}
	if err := tree.Write(string(cgroup.Parking)+"/cgroup.procs", "42"); err != nil {
		t.Fatal(err)
	}
	var e *cgroup.Error
	if err := fs.RemoveParking(); !errors.As(err, &e) || e.Path != string(cgroup.Parking) {
		t.Errorf("removed with a process in it: %v", err)
	}
	tree.Exit(42)
	for range 2 { // the second has nothing to do
		if err := fs.RemoveParking(); err != nil {
			t.Error(err)
		}
	}
}
