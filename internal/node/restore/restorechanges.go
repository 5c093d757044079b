package restore

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Change is a value that restore puts back.
type Change struct {
	undo.Original
	// From is what there is now, To what is written: the original, or what stands in for
	// it where the kernel or the runtime does not take that (all CPUs in the place of
	// none).
	From string `json:"from"`
	To   string `json:"to"`
}

// changes are what restore would write for the originals of a journal, and how many of
// these are of cgroups that have ended. What cannot be told is among the differences.
func changes(h *hostenv.Host, ctx context.Context, j undo.Document) (r RestoreReport, err error) {
	originals, kubeletErr := desired.AsKubelet(h, ctx, j.Originals)
	var leaves []cgroup.Path
	parts := withParking(h, slices.DeleteFunc(slices.Clone(originals), func(o undo.Original) bool { return !isOfPartition(o) }))
	for _, o := range parts {
		leaves = append(leaves, o.Path)
	}
	view, err := h.Cgroups.ReadPartitions(leaves)
	if err != nil {
		return r, errors.Join(kubeletErr, err)
	}
	for _, o := range parts {
		n, there := view.Nodes[o.Path]
		c := Change{Original: o, From: n.State.String(), To: string(cgroup.MemberPartition)}
		is := n.State.Is(cgroup.MemberPartition)
		if o.File == cgroup.FileExclusive {
			c.From, c.To, is = n.Exclusive.String(), "", n.Exclusive.IsEmpty()
		}
		switch {
		case !there:
			r.Gone++
		case !is:
			r.Changes = append(r.Changes, c)
		}
	}
	for _, o := range originals {
		if !isOfPartition(o) {
			change(h, ctx, o, &r)
		}
	}
	slices.SortStableFunc(r.Changes, func(a, b Change) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.File, b.File)) })
	return r, kubeletErr
}

// change adds what would be written for an original.
func change(h *hostenv.Host, ctx context.Context, o undo.Original, r *RestoreReport) {
	st, err := undo.HeldBy(h, ctx, o)
	if errors.Is(err, cgroup.ErrGone) {
		r.Gone++
		return
	}
	to := o.Value
	if err == nil && o.Unit == "" {
		to, _, err = hostUndo(h, o)
	}
	d, differs := undo.HostDifference(h, o, st, err)
	switch {
	case err != nil:
		r.Differs = append(r.Differs, d)
	case differs && d.Now != to:
		r.Changes = append(r.Changes, Change{Original: o, From: d.Now, To: to})
	}
}

// made are those of the changes that a restore has made: what still differs was not.
func made(changes []Change, differs []undo.Difference) []Change {
	failed := make(map[undo.OriginalKey]bool)
	for _, d := range differs {
		failed[d.Key()] = !d.Harmless
	}
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return failed[c.Key()] })
}
