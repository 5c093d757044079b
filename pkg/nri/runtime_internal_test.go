package nri

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// listed is a runtime with pods. It answers with an error if err is set.
type listed struct {
	pods []cri.Pod
	err  error
}

func (l *listed) List(context.Context) ([]cri.Pod, []cri.Container, error) { return l.pods, nil, l.err }

func podsOf(ready bool, ids ...string) (all []cri.Pod) {
	for _, id := range ids {
		all = append(all, cri.Pod{ID: id, Ready: ready})
	}
	return all
}

// TestComparerBegin checks which lists of pods show another runtime.
func TestComparerBegin(t *testing.T) {
	for name, test := range map[string]struct {
		nri, own  []cri.Pod
		err       error
		other     bool
		uncertain bool
	}{
		"the same":              {nri: podsOf(true, "a", "b"), own: podsOf(true, "b", "a")},
		"one in common":         {nri: podsOf(true, "a"), own: podsOf(true, "a", "b", "c")},
		"one that has ended":    {nri: podsOf(true, "a"), own: podsOf(false, "a")},
		"both empty":            {uncertain: true},
		"only ended pods":       {own: podsOf(false, "a"), uncertain: true},
		"others":                {nri: podsOf(true, "x"), own: podsOf(true, "a"), other: true, uncertain: true},
		"no pods in NRI":        {own: podsOf(true, "a"), other: true, uncertain: true},
		"only NRI has pods":     {nri: podsOf(true, "x"), other: true, uncertain: true},
		"others, and ended":     {nri: podsOf(true, "x"), own: podsOf(false, "a"), other: true, uncertain: true},
		"no answer":             {nri: podsOf(true, "x"), own: podsOf(true, "a"), err: errors.New("busy"), uncertain: true},
		"ended, no pods in NRI": {own: podsOf(false, "a", "b"), uncertain: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &comparer{runtime: &listed{test.own, test.err}, interval: checkInterval}
			err := w.begin(t.Context(), test.nri)
			if errors.Is(err, ErrOtherRuntime) != test.other || (err != nil) != test.other {
				t.Errorf("begin: %v; want another runtime: %t", err, test.other)
			}
			if w.isUncertain() != test.uncertain {
				t.Errorf("uncertain: %t; want %t", !test.uncertain, test.uncertain)
			}
		})
	}
	w := &comparer{interval: checkInterval}
	if err := errors.Join(w.begin(t.Context(), podsOf(true, "x")), w.watch(t.Context())); err != nil {
		t.Errorf("without a runtime: %v", err)
	}
}

// TestComparerWatch checks connections that begin without pods, as after a boot.
func TestComparerWatch(t *testing.T) {
	for name, test := range map[string]struct {
		own   []cri.Pod
		busy  bool
		noted map[string]bool
		other bool
		ends  bool // the watch
	}{
		"no pod":                    {},
		"no answer":                 {own: podsOf(true, "a"), busy: true},
		"a pod of the runtime":      {own: podsOf(true, "a"), noted: map[string]bool{"a": true}, ends: true},
		"one of several":            {own: podsOf(true, "a", "b"), noted: map[string]bool{"b": true}, ends: true},
		"a pod that NRI lacks":      {own: podsOf(true, "a"), other: true, ends: true},
		"a pod that is not ready":   {own: podsOf(false, "a")},
		"pods of the other runtime": {own: podsOf(true, "a"), noted: map[string]bool{"x": true}, other: true, ends: true},
		"only the other one's pods": {noted: map[string]bool{"x": true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runtime := &listed{}
				w := &comparer{runtime: runtime, interval: checkInterval}
				if err := w.begin(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				for id, exists := range test.noted {
					w.note("gone", exists)
					w.note("gone", false)
					w.note(id, exists)
				}
				runtime.pods = test.own
				if test.busy {
					runtime.err = errors.New("busy")
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*checkInterval)
				defer cancel()
				err := w.watch(ctx)
				if errors.Is(err, ErrOtherRuntime) != test.other || (err != nil) != test.other {
					t.Errorf("watch: %v; want another runtime: %t", err, test.other)
				}
				if ended := ctx.Err() == nil; ended != test.ends {
					t.Errorf("the watch ended: %t; want %t", ended, test.ends)
				}
			})
		})
	}
}
