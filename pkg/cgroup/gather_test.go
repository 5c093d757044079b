package cgroup_test

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// crowd is a tree with threads 1 and 2 in `a`, 3 below it, all on CPU 1, and 4 in
// another cgroup.
type crowd struct {
	*testnode.Cgroups
	t      *testing.T
	unbind func(tid int) error // before the tree does it
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{Cgroups: testnode.NewCgroups(testnode.CgroupConfig{Possible: cpuset.Range(0, 7)}), t: t, unbind: func(int) error { return nil }}
	c.MkdirAll("a/below/empty")
	c.MkdirAll("other")
	for tid, p := range map[int]string{1: "a", 2: "a", 3: "a/below", 4: "other"} {
		c.join(tid, p)
	}
	if err := c.Write("a/cpuset.cpus", "1"); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *crowd) join(tid int, p string) {
	if err := c.Write(p+"/cgroup.procs", fmt.Sprint(tid)); err != nil {
		c.t.Error(err)
	}
}

func (c *crowd) Unbind(tid int) error {
	if err := c.unbind(tid); err != nil {
		return err
	}
	return c.Cgroups.Unbind(tid)
}

func TestGather(t *testing.T) {
	many := cpuset.Range(0, 3)
	for name, test := range map[string]struct {
		prepare func(*crowd)
		back    int
		stuck   []int
		outside []int // afterwards
		more    bool
	}{
		"nobody outside": {prepare: func(*crowd) {}},
		"one, and one below": {
			prepare: func(c *crowd) { c.Stray(2, many); c.Stray(3, many) },
			back:    2,
		},
		"somebody else's are left alone": {
			prepare: func(c *crowd) { c.Stray(4, cpuset.Of(9)) },
		},
		"its own affinity is left alone": {
			prepare: func(c *crowd) {
				if err := c.Write("a/cpuset.cpus", "1-3"); err != nil {
					c.t.Fatal(err)
				}
				c.Stray(1, cpuset.Of(2))
			},
			outside: []int{1}, // of 1-3 it has 2: as its mask requests
		},
		"forks while it is brought back": {
			prepare: func(c *crowd) {
				c.Stray(1, many)
				next := 10
				c.unbind = func(tid int) error {
					if next < 13 {
						c.join(next, "a")
						c.Stray(next, many)
						next++
					}
					return nil
				}
			},
			back: 4,
		},
		"ends meanwhile": {
			prepare: func(c *crowd) {
				c.Stray(1, many)
				c.unbind = func(tid int) error { c.Exit(tid); return syscall.ESRCH }
			},
		},
		"cannot be moved": {
			prepare: func(c *crowd) {
				c.Stray(1, many)
				c.Stray(2, many)
				c.unbind = func(tid int) error {
					if tid == 1 {
						return syscall.EINVAL
					}
					return nil
				}
			},
			back: 1, stuck: []int{1}, outside: []int{1},
		},
		"without an end": {
			prepare: func(c *crowd) {
				c.Stray(1, many)
				next := 10
				c.unbind = func(tid int) error {
					c.join(next, "a")
					c.Stray(next, many)
					next++
					return nil
				}
			},
			back: 16, outside: []int{25}, more: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t)
			test.prepare(c)
			got, err := cgroup.New(c).Gather("a")
			if got.Back != test.back || !slices.Equal(got.Stuck, test.stuck) || got.Outside != len(test.stuck) || (got.Why != nil) != (test.stuck != nil) || got.More != test.more || err != nil {
				t.Errorf("Gather = %+v, %v; want %d back, %v stuck, more: %t", got, err, test.back, test.stuck, test.more)
			}
			var outside []int
			for tid := range 40 {
				if cpus, err := c.Affinity(tid); err == nil && tid != 4 && !cpus.Equal(c.has()) {
					outside = append(outside, tid)
				}
			}
			if !slices.Equal(outside, test.outside) {
				t.Errorf("threads with other CPUs than their cgroup: %v; want %v", outside, test.outside)
			}
		})
	}
}

// has are the CPUs of cgroup a.
func (c *crowd) has() cpuset.Set {
	st, err := cgroup.New(c).Read("a")
	if err != nil {
		c.t.Fatal(err)
	}
	return st.Effective
}

// blind is a tree whose threads cannot be asked for.
type blind struct{ *crowd }

func (blind) Inside(int, cpuset.Set) (bool, error) { return false, syscall.EPERM }

// TestGatherBlind checks that an unreadable thread does not count as ended.
func TestGatherBlind(t *testing.T) {
	if got, err := cgroup.New(blind{newCrowd(t)}).Gather("a"); !errors.Is(err, syscall.EPERM) {
		t.Errorf("Gather = %+v, %v; want that it is not permitted", got, err)
	}
}

func TestGatherGone(t *testing.T) {
	if got, err := cgroup.New(newCrowd(t)).Gather("gone"); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("Gather of a missing cgroup = %+v, %v", got, err)
	}
	// A tree of files alone knows no threads.
	type files struct{ cgroup.Tree }
	c := newCrowd(t)
	c.Stray(1, cpuset.Of(5))
	if got, err := cgroup.New(files{c}).Gather("a"); err != nil || got.Back != 0 {
		t.Errorf("Gather = %+v, %v", got, err)
	}
}
