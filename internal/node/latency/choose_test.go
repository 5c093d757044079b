package latency_test

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/latency"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// node has 16 CPUs, two threads on each core (0 and 8, 1 and 9). CPU 15 is offline.
func node() latency.Candidates {
	guaranteed, shared := audit.PoolName{Pool: "guaranteed"}, audit.PoolName{Pool: "shared"}
	c := latency.Candidates{
		Online: cpuset.Range(0, 14),
		Free:   cpuset.Of(7, 10, 11, 13, 14, 15),
		Owners: []audit.Owner{
			{PoolName: guaranteed, Pod: "ran/vdu-0", Name: "du", CPUs: cpuset.Of(2)},
			{PoolName: guaranteed, Pod: "ran/pool", CPUs: cpuset.Of(4, 12)},
			{PoolName: guaranteed, Name: "radio.service", CPUs: cpuset.Of(9)},
			{PoolName: guaranteed, CPUs: cpuset.Of(2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15)},
			{PoolName: shared, CPUs: cpuset.Of(0, 1)},
		},
		Claims: map[int]string{6: "ran/claim-a"},
	}
	for cpu := range 8 {
		c.Cores = append(c.Cores, cpuset.Of(cpu, cpu+8))
	}
	return c
}

func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		request, want cpuset.Set
		errs          []string
	}{
		"default":     {cpuset.Set{}, cpuset.Of(7, 11, 13), nil},
		"some":        {cpuset.Of(7, 13), cpuset.Of(7, 13), nil},
		"owned":       {cpuset.Of(2, 7), cpuset.Set{}, []string{"CPU 2 belongs to container ran/vdu-0/du: choose from 7,11,13"}},
		"pod":         {cpuset.Of(4), cpuset.Set{}, []string{"CPU 4 belongs to pod ran/pool: "}},
		"unit":        {cpuset.Of(9), cpuset.Set{}, []string{"CPU 9 belongs to unit radio.service: "}},
		"claim":       {cpuset.Of(6), cpuset.Set{}, []string{"CPU 6 belongs to ResourceClaim ran/claim-a: "}},
		"sibling":     {cpuset.Of(10, 14), cpuset.Set{}, []string{"CPU 10 shares a core with CPU 2 of container ran/vdu-0/du: ", "CPU 14 shares a core with CPU 6 of ResourceClaim ran/claim-a: "}},
		"offline":     {cpuset.Of(15), cpuset.Set{}, []string{"CPU 15 is not online: "}},
		"no such CPU": {cpuset.Of(99), cpuset.Set{}, []string{"CPU 99 is not online: "}},
		"shared":      {cpuset.Of(0), cpuset.Set{}, []string{"CPU 0 is in the shared pool: "}},
		"reserved":    {cpuset.Of(3), cpuset.Set{}, []string{"CPU 3 is reserved for an owner: "}},
		"no pool":     {cpuset.Of(8), cpuset.Set{}, []string{"CPU 8 is in no pool: "}},
	} {
		n := node()
		got, err := n.Choose(c.request)
		switch {
		case len(c.errs) == 0 && (err != nil || !got.Equal(c.want)):
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		case len(c.errs) > 0 && err == nil:
			t.Errorf("%s: no error; want %q", name, c.errs)
		}
		for _, text := range c.errs {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: error %q; want %q", name, err, text)
			}
		}
	}
	n := node()
	n.Free = cpuset.Of(10, 15)
	if _, err := n.Choose(cpuset.Set{}); err == nil || !strings.Contains(err.Error(), "no guaranteed CPU is free") {
		t.Errorf("without free CPUs: %v", err)
	}
	if _, err := n.Choose(cpuset.Of(2)); err == nil || !strings.Contains(err.Error(), "no CPU can be measured at the moment") {
		t.Errorf("without free CPUs, a request: %v", err)
	}
}
