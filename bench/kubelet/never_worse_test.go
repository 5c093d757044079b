package kubelet_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vectors/choice"
)

var (
	requests = flag.Int("requests", 5000, "how many random requests to put to both")
	tell     = flag.Bool("trades", false, "log each fair trade")
	seed     = flag.Uint64("seed", 1, "where the random requests start")
)

// TestNeverWorse puts the same random requests to the kubelet's code and to ours.
func TestNeverWorse(t *testing.T) {
	asked, skipped, refusals, fragments, notFree, trades := 0, 0, 0, 0, 0, 0
	for i := range *requests {
		name := fmt.Sprintf("-seed %d -requests 1", *seed+uint64(i))
		r := rand.New(rand.NewPCG(*seed+uint64(i), 0))
		q, err := anyShape(r).anyRequest(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if q.loops() {
			skipped++
			continue
		}
		asked++
		theirs, err := q.ask()
		if err != nil && !errors.As(err, &refusal{}) {
			t.Fatalf("%s: %s: %v", name, q, err)
		}
		if err != nil {
			refusals++
		}
		switch fault := q.compare(theirs, err); {
		case errors.Is(fault, choice.ErrFragments):
			fragments++
		case errors.Is(fault, choice.ErrNotFree) && q.shape.small > 0:
			notFree++
		case errors.Is(fault, choice.ErrTrade):
			trades++
			if *tell {
				t.Logf("%s: %s: %v", name, q, fault)
			}
		case fault != nil:
			t.Errorf("%s: %s: %v", name, q, fault)
		}
	}
	t.Logf("%d requests. The kubelet refuses %d. It splits cores that it must not split in %d, and allocates CPUs that are not free in %d. "+
		"It never returns for %d more. In %d, cpupoold is better in a property that counts more, and worse in one that counts less.", asked, refusals, fragments, notFree, skipped, trades)
	if *requests >= 1000 && (asked < *requests/2 || refusals == 0 || trades > asked/100) {
		t.Error("requests, refusals or trades are out of range; want half of the requests, some refusals, and at most one trade in a hundred")
	}
}

// compare compares our answer with the kubelet's.
func (q request) compare(theirs cpuset.Set, refused error) error {
	options, err := choice.Options(q.options)
	if err != nil {
		return err
	}
	return choice.Pick{
		Topology: q.topology,
		Free:     q.free,
		Request:  allocate.Request{CPUs: q.count, Nodes: cpuset.Of(q.hint...), Options: options},
	}.Check(theirs, refused)
}

func (q request) String() string {
	return fmt.Sprintf("%s, free %s, reserved %s, %v, hint %v, %d CPUs", q.shape, q.free, q.reserved, q.options, q.hint, q.count)
}
