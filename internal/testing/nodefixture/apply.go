package nodefixture

import (
	"errors"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Apply makes writes as a daemon does: their originals are in the journal first.
func (n *Node) Apply(writes []cgroup.Write) {
	n.T.Helper()
	h := n.Host()
	originals := make([]undo.Original, 0, len(writes))
	for _, w := range writes {
		originals = append(originals, n.original(w))
	}
	n.record(originals)
	for _, w := range writes {
		if err := h.Record(n.T.Context(), w); err != nil {
			n.T.Fatal(err)
		}
	}
}

// original returns the present value of the file or property of a write.
func (n *Node) original(w cgroup.Write) undo.Original {
	unit, ok := w.Path.Unit()
	if !ok || strings.HasPrefix(string(w.Path), "kubepods") {
		return undo.OriginalOf(w, cgroup.Current{State: n.StateAt(w.Path), Exists: true})
	}
	st, err := n.Units.Properties(n.T.Context(), unit)
	if err != nil {
		n.T.Fatal(err)
	}
	return undo.UnitOriginal(w, unit, st)
}

// MakePartition makes a cgroup a cpuset partition as a daemon does: its originals are in
// the journal first.
func (n *Node) MakePartition(w cgroup.PartitionWish) {
	n.T.Helper()
	h := n.Host()
	in := cgroup.PartitionInput{Kernel: h.Kernel, Online: h.Online(), Wishes: []cgroup.PartitionWish{w}}
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
			n.record([]undo.Original{o})
			if err := h.Cgroups.Apply(x.Write); err != nil {
				n.T.Fatal(err)
			}
		}
	}
	if st := n.StateAt(w.Path); !st.Partition.Is(w.Type) {
		n.T.Fatalf("%s is %s; want a partition of type %s", w.Path, st.Partition, w.Type)
	}
}

// record adds originals to the journal on disk, with the mark that a daemon leaves.
func (n *Node) record(originals []undo.Original) {
	n.T.Helper()
	h, j := n.Host(), n.Journal()
	known := undo.New(j)
	for _, o := range originals {
		known.Note(o)
	}
	if err := errors.Join(undo.Mark(h.RunDir, j.BootID).Leave(), undo.Save(h.JournalFile, known.Document())); err != nil {
		n.T.Fatal(err)
	}
}
