package conformance

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// watch is a Watcher with what it has told.
type watch struct {
	*bench
	*cgroup.Watcher
	wake  chan struct{}
	wakes atomic.Int64
	told  []cgroup.Change
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
	})
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

// until waits for a change, and says which were told from the last until to it.
func (w *watch) until(kind cgroup.ChangeKind, p cgroup.Path, name string) []cgroup.Change {
	w.Helper()
	deadline := time.After(patience)
	for {
		changes, err := w.Take()
		if err != nil {
			w.Fatal(err)
		}
		w.told = append(w.told, changes...)
		for _, c := range w.told {
			if c.Kind == kind && c.Path == p && c.Name == name {
				told := w.told
				w.told = nil
				return told
			}
		}
		select {
		case <-w.wake:
		case <-deadline:
			w.Fatalf("waited in vain for change %d of %s in %s; told: %v", kind, name, p, w.told)
		}
	}
}

// patience is how long a change may take to be told.
const patience = 30 * time.Second

// writesTold: who is told of which writes.
func (b *bench) writesTold() {
	p := b.child(b.top, "a")
	other := b.mkdir(b.top.Join("b"))
	w := b.watch()
	w.set([]cgroup.Path{p}, nil)
	w.until(cgroup.Written, p, "") // it was not watched before
	writes := [][2]string{{cgroup.FileCPUs, "1-2"}, {cgroup.FileMems, "0"}, {cgroup.FileWeight, "300"}, {cgroup.FileMax, "5000 10000"}, {"cpu.idle", "1"}}
	if b.k.Nice() {
		writes = append([][2]string{{"cpu.weight.nice", "5"}}, writes...)
	}
	for _, write := range writes {
		b.write(other, write[0], write[1])
		b.write(p, "cgroup.subtree_control", "+cpu") // is no matter
		b.write(p, write[0], write[1])
		if told := w.until(cgroup.Written, p, write[0]); len(told) != 1 {
			b.Errorf("one write to %s was told as %v", write[0], told)
		}
	}
	b.write(p, "cpu.idle", "0")
	w.until(cgroup.Written, p, "cpu.idle")
	b.refused(p, cgroup.FileCPUs, "none", syscall.EINVAL)
	b.write(p, cgroup.FileCPUs, "1-2") // the same again
	w.until(cgroup.Written, p, cgroup.FileCPUs)
}

// writesFold: however many writes there are, they wait as one for each file.
func (b *bench) writesFold() {
	p := b.child(b.top, "a")
	w := b.watch()
	w.set([]cgroup.Path{p}, nil)
	w.until(cgroup.Written, p, "")
	const rounds = 100
	enough := w.wakes.Load() + 2*rounds
	for i := range rounds {
		// In turn: the kernel makes one notice of two equal ones in a row.
		b.write(p, cgroup.FileCPUs, fmt.Sprint(i%2))
		b.write(p, cgroup.FileWeight, fmt.Sprint(i+1))
	}
	deadline := time.After(patience)
	for w.wakes.Load() < enough {
		select {
		case <-w.wake:
		case <-deadline:
			b.Fatalf("woken %d times too little after %d writes", enough-w.wakes.Load(), 2*rounds)
		}
	}
	if told := w.until(cgroup.Written, p, cgroup.FileWeight); len(told) != 2 {
		b.Errorf("%d writes to two files were told as %v", 2*rounds, told)
	}
}

// branchTold: what is in a cgroup that is not there yet, and what is in that, is told of when
// they come, and until then nobody has to ask for it again.
func (b *bench) branchTold() {
	outer := b.top.Join("outer")
	inner := outer.Join("inner")
	leaf := inner.Join("leaf")
	w := b.watch()
	w.set([]cgroup.Path{leaf}, []cgroup.Path{inner})
	if !w.Settled() {
		b.Error("the same set would ask for everything again")
	}
	b.mkdir(outer)
	w.until(cgroup.Appeared, b.top, outer.Base())
	w.set([]cgroup.Path{leaf}, []cgroup.Path{inner})
	if !w.Settled() {
		b.Error("the same set would ask for everything again when a part is there")
	}
	b.mkdir(inner)
	w.until(cgroup.Appeared, outer, inner.Base())
	w.set([]cgroup.Path{leaf}, []cgroup.Path{inner})
	b.mkdir(leaf)
	w.until(cgroup.Appeared, inner, leaf.Base())
	w.set([]cgroup.Path{leaf}, []cgroup.Path{inner})
	w.until(cgroup.Written, leaf, "") // it was not watched before
	if !w.Settled() {
		b.Error("the same set would ask for everything again when all is there")
	}
}

// childrenTold: children are told of where they matter, and where they are wanted
// themselves.
func (b *bench) childrenTold() {
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
	// One that is wanted and not there yet, and its neighbour that nobody wants.
	w.set([]cgroup.Path{late}, nil)
	b.mkdir(p.Join("neighbour"))
	b.mkdir(late)
	if told := w.until(cgroup.Appeared, p, "late"); len(told) != 1 {
		b.Errorf("told: %v", told)
	}
	w.set([]cgroup.Path{late}, nil)
	w.until(cgroup.Written, late, "")
	b.write(late, cgroup.FileCPUs, "1")
	w.until(cgroup.Written, late, cgroup.FileCPUs)
	// Another one of the same name.
	b.rmdir(late)
	b.mkdir(late)
	w.until(cgroup.Appeared, p, "late")
	w.set([]cgroup.Path{late}, nil)
	w.until(cgroup.Written, late, "")
	b.write(late, cgroup.FileWeight, "200")
	w.until(cgroup.Written, late, cgroup.FileWeight)
}

// watchesReleased: cgroups that are gone take no watches with them.
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

// ownWritesTold: a plan that is carried out comes back.
func (b *bench) ownWritesTold() {
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
