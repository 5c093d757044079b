package conformance

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// watch is a Watcher with the changes that it has reported.
type watch struct {
	*bench
	*cgroup.Watcher
	wake     chan struct{}
	wakes    atomic.Int64
	reported []cgroup.Change
}

func (b *bench) watch() *watch {
	b.Helper()
	w := &watch{bench: b, wake: make(chan struct{}, 1)}
	var err error
	w.Watcher, err = b.fs.Watch(func() {
		w.wakes.Add(1)
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := w.Close(); err != nil {
			b.Error(err)
		}
	})
	return w
}

func (w *watch) set(files, parents []cgroup.Path) {
	w.Helper()
	if err := w.Set(files, parents); err != nil {
		w.Fatal(err)
	}
}

// until waits for a change. It returns the changes reported since the previous call, up to this
// one.
func (w *watch) until(kind cgroup.ChangeKind, p cgroup.Path, name string) []cgroup.Change {
	w.Helper()
	deadline := time.After(changeTimeout)
	for {
		changes, err := w.Take(time.Second)
		if err != nil {
			w.Fatal(err)
		}
		w.reported = append(w.reported, changes...)
		for _, c := range w.reported {
			if c.Kind == kind && c.Path == p && c.Name == name {
				reported := w.reported
				w.reported = nil
				return reported
			}
		}
		select {
		case <-w.wake:
		case <-deadline:
			w.Fatalf("no change %d of %s in %s; reported: %v", kind, name, p, w.reported)
		}
	}
}

// changeTimeout is the maximum time until a change is reported.
const changeTimeout = 30 * time.Second

// writesReported checks that writes to watched files are reported, and no other writes.
func (b *bench) writesReported() {
	p := b.child(b.top, "a")
	other := b.mkdir(b.top.Join("b"))
	w := b.watch()
	w.set([]cgroup.Path{p}, nil)
	w.until(cgroup.Written, p, "") // reported because it was not watched before
	writes := [][2]string{{cgroup.FileCPUs, "1-2"}, {cgroup.FileMems, "0"}, {cgroup.FileWeight, "300"}, {cgroup.FileMax, "5000 10000"}, {"cpu.idle", "1"}}
	if b.k.Nice() {
		writes = append([][2]string{{"cpu.weight.nice", "5"}}, writes...)
	}
	for _, write := range writes {
		b.write(other, write[0], write[1])
		b.write(p, "cgroup.subtree_control", "+cpu") // not reported
		b.write(p, write[0], write[1])
		if reported := w.until(cgroup.Written, p, write[0]); len(reported) != 1 {
			b.Errorf("one write to %s is reported as %v", write[0], reported)
		}
	}
	b.write(p, "cpu.idle", "0")
	w.until(cgroup.Written, p, "cpu.idle")
	b.refused(p, cgroup.FileCPUs, "none", syscall.EINVAL)
	b.write(p, cgroup.FileCPUs, "1-2") // an equal value
	w.until(cgroup.Written, p, cgroup.FileCPUs)
}

// writesMerged checks that pending writes to one file count as one change.
func (b *bench) writesMerged() {
	p := b.child(b.top, "a")
	w := b.watch()
	w.set([]cgroup.Path{p}, nil)
	w.until(cgroup.Written, p, "")
	const rounds = 100
	enough := w.wakes.Load() + 2*rounds
	for i := range rounds {
		// In turn, because the kernel merges two equal notices in a row.
		b.write(p, cgroup.FileCPUs, fmt.Sprint(i%2))
		b.write(p, cgroup.FileWeight, fmt.Sprint(i+1))
	}
	deadline := time.After(changeTimeout)
	for w.wakes.Load() < enough {
		select {
		case <-w.wake:
		case <-deadline:
			b.Fatalf("woken %d times too little after %d writes", enough-w.wakes.Load(), 2*rounds)
		}
	}
	if reported := w.until(cgroup.Written, p, cgroup.FileWeight); len(reported) != 2 {
		b.Errorf("%d writes to two files are reported as %v", 2*rounds, reported)
	}
}

// branchReported checks that cgroups below a missing cgroup are reported when they appear. Until
// then the watcher is settled, so that a Set of the same cgroups has nothing to do.
func (b *bench) branchReported() {
	outer := b.top.Join("outer")
	inner := outer.Join("inner")
	leaf := inner.Join("leaf")
	w := b.watch()
	w.set([]cgroup.Path{leaf}, []cgroup.Path{inner})
	if !w.Settled() {
		b.Error("not settled before the branch exists")
	}
	b.mkdir(outer)
	w.until(cgroup.Appeared, b.top, outer.Base())
	w.set([]cgroup.Path{leaf}, []cgroup.Path{inner})
	if !w.Settled() {
		b.Error("not settled when a part of the branch exists")
	}
	b.mkdir(inner)
	w.until(cgroup.Appeared, outer, inner.Base())
	w.set([]cgroup.Path{leaf}, []cgroup.Path{inner})
	b.mkdir(leaf)
	w.until(cgroup.Appeared, inner, leaf.Base())
	w.set([]cgroup.Path{leaf}, []cgroup.Path{inner})
	w.until(cgroup.Written, leaf, "") // reported because it was not watched before
	if !w.Settled() {
		b.Error("not settled when the branch exists")
	}
}

// childrenReported checks that children are reported below a watched parent, and if they are
// watched themselves.
func (b *bench) childrenReported() {
	p := b.child(b.top, "a")
	b.write(p, "cgroup.subtree_control", "+cpuset +cpu")
	early := b.mkdir(p.Join("early"))
	w := b.watch()
	w.set(nil, []cgroup.Path{p})
	w.until(cgroup.Appeared, p, "early")
	late := b.mkdir(p.Join("late"))
	w.until(cgroup.Appeared, p, "late")
	for _, gone := range []cgroup.Path{early, late} {
		b.rmdir(gone)
		w.until(cgroup.Gone, p, gone.Base())
	}
	// A missing cgroup is watched, its sibling is not.
	w.set([]cgroup.Path{late}, nil)
	b.mkdir(p.Join("neighbour"))
	b.mkdir(late)
	if reported := w.until(cgroup.Appeared, p, "late"); len(reported) != 1 {
		b.Errorf("reported: %v", reported)
	}
	w.set([]cgroup.Path{late}, nil)
	w.until(cgroup.Written, late, "")
	b.write(late, cgroup.FileCPUs, "1")
	w.until(cgroup.Written, late, cgroup.FileCPUs)
	// A new cgroup with the same name.
	b.rmdir(late)
	b.mkdir(late)
	w.until(cgroup.Appeared, p, "late")
	w.set([]cgroup.Path{late}, nil)
	w.until(cgroup.Written, late, "")
	b.write(late, cgroup.FileWeight, "200")
	w.until(cgroup.Written, late, cgroup.FileWeight)
}

// watchesReleased checks that removed cgroups hold no watches.
func (b *bench) watchesReleased() {
	before := b.k.Watches(b)
	p := b.child(b.top, "a")
	b.write(p, "cgroup.subtree_control", "+cpuset +cpu")
	w := b.watch()
	const rounds = 200
	for i := range rounds {
		child := p.Join(fmt.Sprint("pod", i))
		w.set([]cgroup.Path{child}, []cgroup.Path{p})
		b.mkdir(child)
		w.until(cgroup.Appeared, p, child.Base())
		w.set([]cgroup.Path{child}, []cgroup.Path{p})
		b.rmdir(child)
		w.until(cgroup.Gone, p, child.Base())
		if now := b.k.Watches(b); now > before+3 {
			b.Fatalf("%d watches after %d cgroups have come and gone, %d before", now, i+1, before)
		}
	}
	w.set(nil, nil)
	if now := b.k.Watches(b); now != before {
		b.Errorf("%d watches when nothing is watched, want %d", now, before)
	}
}

// ownWritesReported checks that own writes are reported, too.
func (b *bench) ownWritesReported() {
	p := b.child(b.top, "a")
	w := b.watch()
	w.set([]cgroup.Path{p}, nil)
	w.until(cgroup.Written, p, "")
	own := cgroup.Write{Via: cgroup.File, Path: p, Property: cgroup.FileCPUs, Value: cpuset.Of(1).String()}
	if err := b.fs.Apply(own); err != nil {
		b.Fatal(err)
	}
	w.until(cgroup.Written, p, cgroup.FileCPUs)
}
