package restore

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/statickubelet"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Change is a value that Restore replaces.
type Change struct {
	undo.Original
	// From is the present value, To the value to write: the original, or its substitute if
	// kernel or runtime reject the original (all CPUs instead of none).
	From string `json:"from"`
	To   string `json:"to"`
}

// changes returns the writes of a restore, and the number of originals of cgroups that have ended. An
// unreadable value is a difference.
func changes(ctx context.Context, h *hostenv.Host, j undo.Document) (r Report, err error) {
	originals, kubeletErr := statickubelet.Originals(ctx, h, j.Originals)
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
			change(ctx, h, o, &r)
		}
	}
	slices.SortStableFunc(r.Changes, func(a, b Change) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.File, b.File)) })
	return r, kubeletErr
}

func change(ctx context.Context, h *hostenv.Host, o undo.Original, r *Report) {
	st, err := o.Now(ctx, h)
	if errors.Is(err, cgroup.ErrGone) {
		r.Gone++
		return
	}
	to := o.Value
	if err == nil && o.Unit == "" {
		to, _, err = restoring(h, o)
	}
	d, differs := o.Difference(h, st, err)
	switch {
	case err != nil:
		r.Differs = append(r.Differs, d)
	case differs && d.Now != to:
		r.Changes = append(r.Changes, Change{Original: o, From: d.Now, To: to})
	}
}

// made returns the changes, except values that still differ after the restore.
func made(changes []Change, differs []undo.Difference) []Change {
	failed := make(map[undo.Key]bool)
	for _, d := range differs {
		failed[d.Key()] = !d.Harmless
	}
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return failed[c.Key()] })
}
