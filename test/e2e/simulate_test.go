//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/internal/plugin/viewer"
	planner "github.com/cpupoold/cpupoold/pkg/pools"
)

// plan simulates the node from the objects of the API server, and checks that each container has the pool and the CPUs that the daemon reports.
// No owner has ended before, so the daemon and the simulation place the pods in the same order.
func plan(t *testing.T, c *cluster) {
	manual := read(t, "docs/how-to/simulate-rollout.md")
	manual.follow(t, c, "kubectl get nodes,pods -A -o json > cluster.json")

	// The pools of a fresh installation do not list namespace ops: exit code 3.
	var fresh simulate.Document
	if err := json.Unmarshal([]byte(c.kubectl(t, c.pluginPath(t)+"kubectl cpupool simulate -f cluster.json -o json || test $? -eq 3")), &fresh); err != nil {
		t.Fatal(err)
	}
	refused := func(r simulate.Refusal) bool {
		return r.Code != string(planner.CodeNamespaceNotListed) || !strings.HasPrefix(r.Pod, "ops/monitor-")
	}
	if fresh.Node != nodeName || !fresh.Config.Fresh || len(fresh.CPUs) != 8 || len(fresh.Refused) != 2 || slices.ContainsFunc(fresh.Refused, refused) {
		t.Errorf("with the pools of a fresh installation: %+v", fresh)
	}

	manual.follow(t, c,
		`kubectl -n cpupoold get configmap cpupoold -o 'jsonpath={.data.config\.yaml}' > installed.yaml`,
		"kubectl -n cpupoold exec daemonset/cpupoold -- cpupoold topology -o json > machine.json")
	c.plugin(t, "simulate -f cluster.json --topology machine.json --config installed.yaml -o json > plan.json")
	simulated := c.document(t, "cat plan.json")
	reported := c.document(t, "kubectl -n cpupoold exec daemonset/cpupoold -- cpupoold status -o json")
	if diff := cmp.Diff(places(reported.Containers), places(simulated.Containers)); diff != "" {
		t.Errorf("the daemon (-) and the simulation (+) place containers differently:\n%s", diff)
	}
	sizes := func(all []inspect.Pool) (of []string) {
		for _, p := range all {
			of = append(of, fmt.Sprintf("%s %s %v, owned %v, free %v", p.Name, p.Type, p.CPUs, p.Owned, p.Free))
		}
		return of
	}
	if diff := cmp.Diff(sizes(reported.Pools), sizes(simulated.Pools)); diff != "" {
		t.Errorf("the daemon (-) and the simulation (+) have different pools:\n%s", diff)
	}

	address := c.serve(t, "-f plan.json")
	eventually(t, "the page has the simulation", func(ctx context.Context) error {
		shown, err := stateAt(ctx, address)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(places(simulated.Containers), places(shown.Containers)); diff != "" {
			return fmt.Errorf("the file (-) and the page (+) differ:\n%s", diff)
		}
		return explainedAt(ctx, address, "whole-1")
	})
}

// places returns where containers run, by name.
func places(all []inspect.Container) map[string]string {
	at := make(map[string]string)
	for i := range all {
		at[all[i].Full()] = fmt.Sprintf("%s %s %s %v exclusive=%v (%s)", all[i].State, all[i].Pool, all[i].Type, all[i].CPUs, all[i].Exclusive, all[i].Code)
	}
	return at
}

// document reads the status, or the simulation, that a line of a shell prints.
func (c *cluster) document(t *testing.T, line string) *inspect.Status {
	t.Helper()
	var s inspect.Status
	if err := json.Unmarshal([]byte(c.kubectl(t, line)), &s); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return &s
}

// explainedAt asks a page of serve about a pod, as the page does when the user selects a container.
func explainedAt(ctx context.Context, address, pod string) error {
	s, err := stateAt(ctx, address)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(s.Containers, func(c inspect.Container) bool { return c.Pod == pod })
	if i < 0 {
		return fmt.Errorf("the page has no pod %s", pod)
	}
	var answer struct {
		Error       string
		Explanation *inspect.Explanation
	}
	if err := getJSON(ctx, address+"explain?of="+url.QueryEscape(viewer.Name(&s.Containers[i])), &answer); err != nil {
		return err
	}
	e := answer.Explanation
	if answer.Error != "" || e == nil || len(e.Subjects) != 1 || len(e.Subjects[0].Rules) == 0 || e.Subjects[0].Sentence == "" {
		return fmt.Errorf("pod %s is explained with %+v", pod, answer)
	}
	return nil
}
