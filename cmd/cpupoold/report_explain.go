package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/report"
)

// maxExplanations bounds the explanations of a report, in bytes of JSON without white space:
// indented they have about twice as many.
const maxExplanations = report.MaxFile / 4

// explanations queries the daemon for each pod and unit of a status, and returns one document
// in the format of explain. Pods and units that need attention come first, because time or
// space may not suffice for all.
func (r *reported) explanations(ctx context.Context, client *control.Client, s *inspect.Status) {
	const name = "explanations.json"
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	all := inspect.Explanation{Version: inspect.Version, Time: r.at, Asked: "all", Subjects: []inspect.Subject{}}
	size, subjects := 0, subjectsOf(s)
	var failed []error
	for i, subject := range subjects {
		e, err := client.Explain(ctx, subject)
		if ctx.Err() != nil {
			r.lack(name, fmt.Errorf("the time is up after %d of %d pods and units", i, len(subjects)))
			break
		}
		if err != nil {
			failed = append(failed, err) // of a pod that is gone by now, mostly
			continue
		}
		text, err := json.Marshal(e.Subjects)
		if size += len(text); err != nil || size > maxExplanations {
			r.lack(name, fmt.Errorf("there is room for %d of %d pods and units", i, len(subjects)))
			break
		}
		r.learn(func(n *report.Redactor) {
			for j := range e.Subjects {
				n.AddSubject(&e.Subjects[j])
			}
		})
		all.Subjects = append(all.Subjects, e.Subjects...)
	}
	if len(failed) > 0 {
		r.lack(name, fmt.Errorf("%d of %d pods and units are not explained; the first: %w", len(failed), len(subjects), failed[0]))
	}
	r.json(name, &all)
}

// subjectsOf returns the UIDs of pods and the units in a status. Pods and units with a
// problem come first, then owners of CPUs.
func subjectsOf(s *inspect.Status) []string {
	troubled := make(map[string]bool)
	for _, p := range s.Problems {
		troubled[cmp.Or(p.PodUID, p.Unit)] = true
	}
	var names []string
	rank := make(map[string]int)
	for _, c := range s.Containers {
		name := c.PodUID
		if c.Unit {
			name = c.Name
		}
		at := 2
		switch {
		case name == "":
			continue
		case c.Refused || troubled[name]:
			at = 0
		case c.Exclusive:
			at = 1
		}
		was, known := rank[name]
		if !known {
			names = append(names, name)
			was = at
		}
		rank[name] = min(at, was)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank[a], rank[b]) })
	return names
}
