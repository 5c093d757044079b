package conformance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func isGone(err error) bool { return errors.Is(err, cgroup.ErrGone) }

func isErrno(err error, want syscall.Errno) bool { return errors.Is(err, want) }

func (b *bench) weight() {
	p := b.child(b.top, "c")
	if s := b.state(p); s.Weight != 100 || s.Idle {
		b.Errorf("new cgroup: weight %d, idle %t; want 100, false", s.Weight, s.Idle)
	}
	for _, w := range []uint64{1, 59, 10000} {
		b.write(p, cgroup.FileWeight, fmt.Sprint(w))
		if s := b.state(p); s.Weight != w {
			b.Errorf("cpu.weight is %d, want %d", s.Weight, w)
		}
	}
	for _, value := range []string{"0", "10001", "-1", "99999999999999999999"} {
		b.refused(p, cgroup.FileWeight, value, weightError(value))
	}
	b.refused(p, cgroup.FileWeight, "x", syscall.EINVAL)
}

// weightError returns the error for an invalid weight. A negative number fails to parse.
func weightError(value string) error {
	if value[0] == '-' {
		return syscall.EINVAL
	}
	return syscall.ERANGE
}

func (b *bench) idle() {
	p := b.child(b.top, "c")
	b.write(p, cgroup.FileWeight, "59")
	b.write(p, "cpu.idle", "1")
	if s := b.state(p); !s.Idle || s.Weight != b.k.IdleWeight() {
		b.Errorf("idle %t, weight %d; want true, %d", s.Idle, s.Weight, b.k.IdleWeight())
	}
	b.refused(p, cgroup.FileWeight, "59", syscall.EINVAL)
	b.write(p, "cpu.idle", "0")
	if s := b.state(p); s.Idle || s.Weight != 100 {
		b.Errorf("idle %t, weight %d; want false and the default of 100", s.Idle, s.Weight)
	}
}

func (b *bench) max() {
	p := b.child(b.top, "c")
	for _, c := range []struct {
		value         string
		quota, period int64
	}{
		{"50000 100000", 50000, 100000},
		{"60000", 60000, 100000}, // the period does not change
		{"1000 1000", 1000, 1000},
		{"max 50000", -1, 50000},
		{"20000", 20000, 50000},
		{"max", -1, 50000},
	} {
		b.write(p, cgroup.FileMax, c.value)
		if s := b.state(p); s.Quota != c.quota || s.Period != c.period {
			b.Errorf("cpu.max after %q: %d %d; want %d %d", c.value, s.Quota, s.Period, c.quota, c.period)
		}
	}
	for _, value := range []string{"999", "max 999", "max 1000001", "x", "0"} {
		b.refused(p, cgroup.FileMax, value, syscall.EINVAL)
	}
}

// plans applies a sequence of random plans to cgroups with tasks. After each write it checks that
// no cgroup has got CPUs that another one owns.
func (b *bench) plans() {
	const groups, plans = 5, 12
	r := rand.New(rand.NewPCG(1, 2))
	var paths []cgroup.Path
	for i := range groups {
		p := b.child(b.top, fmt.Sprint("g", i))
		b.task(p)
		paths = append(paths, p)
	}
	for range plans {
		targets := randomTargets(r, paths, 4)
		options := cgroup.Options{Driver: cgroup.DriverCgroupfs, Possible: b.k.Possible(), Spare: spare(targets, 4)}
		writes, _ := cgroup.Diff(targets, b.current(targets), options)
		before := b.sharing(targets)
		for _, w := range writes {
			if err := b.fs.Apply(w); err != nil {
				b.Fatal(err)
			}
			now := b.sharing(targets)
			for pair, cpus := range now {
				if !cpus.IsSubsetOf(before[pair]) {
					b.Errorf("after %s: %v share %s", w, pair, cpus)
				}
			}
			before = now
		}
		writes, deferred := cgroup.Diff(targets, b.current(targets), options)
		if len(writes) > 0 {
			b.Errorf("second Diff is not empty: %v", writes)
		}
		for _, target := range targets {
			if err := cgroup.Verify(target, b.state(target.Path)); err != nil && len(deferred) == 0 {
				b.Error(err)
			}
		}
	}
}

func (b *bench) current(targets []cgroup.Target) map[cgroup.Path]cgroup.Current {
	b.Helper()
	current := map[cgroup.Path]cgroup.Current{}
	for _, t := range targets {
		current[t.Path] = cgroup.Current{State: b.state(t.Path), Exists: true}
	}
	return current
}

// sharing returns the common CPUs of each pair with an exclusive cgroup.
func (b *bench) sharing(targets []cgroup.Target) map[[2]cgroup.Path]cpuset.Set {
	b.Helper()
	sharing := map[[2]cgroup.Path]cpuset.Set{}
	for i, x := range targets {
		for _, y := range targets[i+1:] {
			if x.Exclusive || y.Exclusive {
				cpus := b.state(x.Path).Effective.Intersection(b.state(y.Path).Effective)
				sharing[[2]cgroup.Path{x.Path, y.Path}] = cpus
			}
		}
	}
	return sharing
}

// randomTargets gives some of the first cpus CPUs to exclusive cgroups, and the rest to the
// others.
func randomTargets(r *rand.Rand, paths []cgroup.Path, cpus int) []cgroup.Target {
	shared := cpuset.Of(0)
	targets := make([]cgroup.Target, len(paths))
	for cpu := 1; cpu < cpus; cpu++ {
		i := r.IntN(2 * len(paths))
		if i >= len(paths) {
			shared = shared.Union(cpuset.Of(cpu))
			continue
		}
		targets[i].CPUs, targets[i].Exclusive = targets[i].CPUs.Union(cpuset.Of(cpu)), true
	}
	for i := range targets {
		targets[i].Path = paths[i]
		if !targets[i].Exclusive {
			targets[i].CPUs = shared
		}
	}
	return targets
}

func spare(targets []cgroup.Target, cpus int) cpuset.Set {
	left := cpuset.Range(0, cpus-1)
	for _, t := range targets {
		left = left.Difference(t.CPUs)
	}
	return left
}
