package nodefixture

import (
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Apply makes writes as a daemon does: their originals are in the journal first.
func (n *Node) Apply(writes []cgroup.Write) {
	n.T.Helper()
	h := n.Host()
	containers := make(map[cgroup.Path]string)
	for _, w := range writes {
		if w.Container != "" {
			containers[w.Path] = w.Container
		}
	}
	n.changeJournal(func(j *undo.Journal) {
		for _, w := range writes {
			w.Container = containers[w.Path]
			n.note(j, w)
		}
	})
	for _, w := range writes {
		if err := h.Record(n.T.Context(), w); err != nil {
			n.T.Fatal(err)
		}
	}
}

// note notes the present value of the file or property of a write.
func (n *Node) note(j *undo.Journal, w cgroup.Write) {
	n.T.Helper()
	unit, ok := w.Path.Unit()
	if !ok || strings.HasPrefix(string(w.Path), "kubepods") {
		j.Originals.NoteWrite(w, cgroup.Current{State: n.StateAt(w.Path.Scope()), Exists: true})
		return
	}
	st, err := n.Units.Properties(n.T.Context(), unit)
	if err != nil {
		n.T.Fatal(err)
	}
	j.Originals.NoteUnitWrite(w, unit, st)
}

// MakePartition makes a cgroup a cpuset partition as a daemon does: its originals are in
// the journal first.
func (n *Node) MakePartition(w cgroup.DesiredPartition) {
	n.T.Helper()
	h := n.Host()
	in := cgroup.PartitionInput{Kernel: h.Kernel, Online: h.Online(), Desired: []cgroup.DesiredPartition{w}}
	for range 10 {
		var err error
		if in.View, err = h.Cgroups.ReadPartitions([]cgroup.Path{w.Path}); err != nil {
			n.T.Fatal(err)
		}
		step := cgroup.PlanPartitions(in)
		if len(step.Writes) == 0 {
			break
		}
		for _, x := range step.Writes {
			o := undo.Original{Path: x.Path, File: x.Property, Container: x.Container}
			if o.File == cgroup.FilePartition {
				o.Value = string(cgroup.MemberPartition)
			}
			n.changeJournal(func(j *undo.Journal) { j.Originals.Note(o) })
			if err := h.Cgroups.Apply(x.Write); err != nil {
				n.T.Fatal(err)
			}
		}
	}
	if st := n.StateAt(w.Path); !st.Partition.Is(w.Type) {
		n.T.Fatalf("%s is %s; want a partition of type %s", w.Path, st.Partition, w.Type)
	}
}

// changeJournal changes the journal on disk, and leaves the mark that a daemon leaves.
func (n *Node) changeJournal(change func(*undo.Journal)) {
	n.T.Helper()
	h, j := n.Host(), n.Journal().Journal()
	change(j)
	d, _, due := j.BeginSave(time.Now())
	if !due {
		return
	}
	if err := (undo.File{Name: h.JournalFile, RunDir: h.RunDir}).Save(d); err != nil {
		n.T.Fatal(err)
	}
}
