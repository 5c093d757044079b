package pools_test

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

var lives = flag.Int("lives", 100, "number of random nodes in TestLife")

// live lets a node live, and checks each of its plans and each step from one to
// the next.
func live(t *testing.T, bytes []byte) {
	w := newWorld(bytes)
	before := checkedBuild(t, w.in)
	quiet := len(bytes) > 0 && bytes[0]&1 == 1
	for steps := 0; len(w.bytes) > 0 && steps < 60; steps++ {
		what := w.step()
		w.in.Previous = before.Assignments
		if w.in.Resting = before.Resting; quiet {
			for _, a := range before.Assignments {
				w.in.Resting = w.in.Resting.Union(a.CPUs)
			}
		}
		after := checkedBuild(t, w.in)
		checkSticky(t, before, after, w.in.Pools.Guaranteed)
		checkAway(t, before, after)
		if t.Failed() {
			t.Fatalf("step %d: %s, before:\n%s\nafter:\n%s\n%+v", steps, what, format(before), format(after), w.in.Pods)
		}
		before = after
	}
}

func FuzzLife(f *testing.F) {
	f.Add([]byte("a pod and nothing else"))
	f.Add([]byte(strings.Repeat("\x01\x00\x03\x02\x05\x08", 40)))
	f.Add([]byte(strings.Repeat("\x03\x01\x04\x01\x05\x09\x02\x06\x07\x00", 30)))
	f.Add([]byte(strings.Repeat("the quick brown fox jumps over the lazy dog", 8)))
	f.Fuzz(live)
}

// TestLife lets many nodes live, the same ones each time.
func TestLife(t *testing.T) {
	for seed := range *lives {
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		bytes := make([]byte, 400)
		for i := range bytes {
			bytes[i] = byte(r.Uint32())
		}
		live(t, bytes)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// FuzzPrevious starts on a node whose records are arbitrary.
func FuzzPrevious(f *testing.F) {
	f.Add([]byte("some seed to make a machine of, and pods"), []byte("and records"))
	f.Add([]byte(strings.Repeat("\x01\x00\x02\x00\x03", 30)), []byte{1, 2, 0, 1, 2, 1, 5, 255, 2, 2, 2, 9})
	f.Fuzz(func(t *testing.T, bytes, records []byte) {
		w := newWorld(bytes)
		for steps := 0; len(w.bytes) > 0 && steps < 30; steps++ {
			w.step()
		}
		for len(records) >= 3 {
			key := pools.Key{PodUID: "pod-" + string('0'+rune(records[0]%12)), Container: string('a' + rune(records[1]%4))}
			switch records[1] >> 6 {
			case 1:
				key = pools.Key{Container: "a.service"}
			case 2:
				key.Container = "" // reserved
			}
			first := int(records[2]) % 64
			w.in.Previous = append(w.in.Previous, pools.Assignment{Key: key, CPUs: cpuset.Range(first, first+int(records[0]>>5))})
			records = records[3:]
		}
		w.in.Previous = append(w.in.Previous, pools.Assignment{}) // empty, without an owner
		checkedBuild(t, w.in)
	})
}

// FuzzAdapt adapts the pools of one machine to another one with pods that request CPUs.
func FuzzAdapt(f *testing.F) {
	f.Add([]byte("some seed"), []byte("of another machine"))
	f.Add([]byte(strings.Repeat("\x01\x05\x02\x03", 20)), []byte{})
	f.Add([]byte(strings.Repeat("\x00\x05\x01\x03\x02", 30)), []byte(strings.Repeat("\x01\x00\x02", 40)))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		spec := newWorld(first).spec()
		w := newWorld(second)
		p, errs := spec.Adapt(w.top)
		if resolved, err := spec.Resolve(w.top); err == nil && (len(errs) > 0 || !cmp.Equal(resolved, p)) {
			t.Errorf("Adapt of pools that fit = %v: -resolved +adapted\n%s", errs, cmp.Diff(resolved, p))
		} else if err != nil && len(errs) == 0 {
			t.Errorf("Adapt = no error; want %v", err)
		}
		w.in.Machine, w.in.Pools = allocate.New(w.top), p
		for steps := 0; len(w.bytes) > 0 && steps < 20; steps++ {
			w.createPod()
			w.startContainer(w.pod())
		}
		checkedBuild(t, w.in)
	})
}
