package nri_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// listed is a runtime with pods. It answers with an error if err is set.
type listed struct {
	pods []cri.Pod
	err  error
}

func (l listed) List(context.Context) ([]cri.Pod, []cri.Container, error) { return l.pods, nil, l.err }

// TestCheckRuntime checks which lists of pods show another runtime.
func TestCheckRuntime(t *testing.T) {
	pods := func(ready bool, ids ...string) (all []cri.Pod) {
		for _, id := range ids {
			all = append(all, cri.Pod{ID: id, Ready: ready})
		}
		return all
	}
	for name, test := range map[string]struct {
		nri, own []cri.Pod
		err      error
		other    bool
	}{
		"the same":                {nri: pods(true, "a", "b"), own: pods(true, "b", "a")},
		"one in common":           {nri: pods(true, "a"), own: pods(true, "a", "b", "c")},
		"one that has ended":      {nri: pods(true, "a"), own: pods(false, "a")},
		"both empty":              {},
		"only ended pods":         {own: pods(false, "a")},
		"others":                  {nri: pods(true, "x"), own: pods(true, "a"), other: true},
		"NRI has none":            {own: pods(true, "a"), other: true},
		"only NRI has pods":       {nri: pods(true, "x"), other: true},
		"others, and ended":       {nri: pods(true, "x"), own: pods(false, "a"), other: true},
		"no answer":               {nri: pods(true, "x"), own: pods(true, "a"), err: errors.New("busy")},
		"ended, and NRI has none": {own: pods(false, "a", "b")},
	} {
		t.Run(name, func(t *testing.T) {
			err := nri.CheckRuntime(t.Context(), listed{test.own, test.err}, test.nri)
			if errors.Is(err, nri.ErrOtherRuntime) != test.other || (err != nil) != test.other {
				t.Errorf("CheckRuntime: %v; want another runtime: %t", err, test.other)
			}
		})
	}
	if err := nri.CheckRuntime(t.Context(), nil, pods(true, "x")); err != nil {
		t.Errorf("CheckRuntime without a runtime: %v", err)
	}
}
