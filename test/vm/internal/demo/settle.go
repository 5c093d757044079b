package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// settleLimit is generous: an emulated kubelet takes seconds for each pod.
const settleLimit = 10 * time.Minute

// settle starts pods, ends all others, and waits until all their containers run and the daemon has nothing left to write.
func (s *scene) settle(ctx context.Context, all []manifest.Pod) error {
	if err := apply(ctx, s.m, all); err != nil {
		return err
	}
	_, err := s.rest(ctx, all)
	return err
}

// rest waits until these pods and no others run, and the daemon has nothing left to write.
func (s *scene) rest(ctx context.Context, all []manifest.Pod) (preview.Preview, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, settleLimit, fmt.Errorf("not there after %v", settleLimit))
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for last := ""; ; {
		shown, state, err := s.inspect(ctx, all)
		now := state.String()
		if err != nil { // a runtime that starts many pods under emulation does not always answer in time
			now = clip(err.Error())
		}
		if now != last {
			s.detail("%s", now)
			last = now
		}
		if err == nil && state.settled() {
			return shown, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return preview.Preview{}, errors.Join(fmt.Errorf("wait for pods: %w: %s", context.Cause(ctx), state), err)
		}
	}
}

// inspect returns the state of the node. The program cpupoold costs an emulated node a second of CPU time. So inspect runs it only if all containers run
// by the status of the daemon. Only then is the preview set, and the state can be settled.
func (s *scene) inspect(ctx context.Context, all []manifest.Pod) (preview.Preview, state, error) {
	status, err := s.daemon.status(ctx)
	if err != nil {
		return preview.Preview{}, state{}, err
	}
	if now := stateOf(all, statusPods(status)); !now.settled() {
		return preview.Preview{}, now, nil
	}
	shown, err := plan(ctx, s.m)
	if err != nil {
		return preview.Preview{}, state{}, err
	}
	now := stateOf(all, planPods(shown.Plan))
	now.left = len(shown.Writes) + len(shown.Deferred) + len(shown.Unread)
	return shown, now, nil
}

// clip cuts text for a line of progress.
func clip(text string) string {
	const longest = width - len("12345 s    ...")
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > longest {
		return text[:longest] + "..."
	}
	return text
}

// plan runs `cpupoold plan` in the guest, and returns its result.
func plan(ctx context.Context, m *vm.VM) (preview.Preview, error) {
	out, err := m.Run(ctx, "cpupoold", "plan", "-o", "json")
	if err != nil {
		return preview.Preview{}, err
	}
	var p preview.Preview
	if err := json.Unmarshal(out, &p); err != nil {
		return preview.Preview{}, fmt.Errorf("parse output of cpupoold plan: %w", err)
	}
	return p, nil
}

// state counts the remaining work of a node.
type state struct {
	pods, wantedPods   int
	containers, wanted int // containers count when they run
	others             int // pods that should end
	left               int // writes, also deferred ones, and objects that could not be read
}

// podSet has the names of pods, namespace/name, each with the names of its running containers.
type podSet map[string][]string

func planPods(p pools.Plan) podSet {
	there := make(podSet)
	for _, pod := range p.Pods {
		var running []string
		for _, c := range pod.Containers {
			if c.Kind == pools.App && c.State == pools.Running {
				running = append(running, c.Name)
			}
		}
		there[pod.Namespace+"/"+pod.Name] = running
	}
	return there
}

// statusPods leaves out pods that have a pause container only.
func statusPods(s *inspect.Status) podSet {
	there := make(podSet)
	for _, c := range s.Containers {
		if c.Unit {
			continue
		}
		name := c.Namespace + "/" + c.Pod
		running := there[name]
		if c.State == "running" {
			running = append(running, c.Name)
		}
		there[name] = running
	}
	return there
}

// stateOf compares the pods of a node with those that are wanted.
func stateOf(want []manifest.Pod, there podSet) state {
	s := state{wantedPods: len(want), others: len(there)}
	for _, pod := range want {
		running, ok := there[pod.Namespace+"/"+pod.Name+nodeSuffix]
		if ok {
			s.pods++
			s.others--
		}
		for _, c := range pod.Containers {
			s.wanted++
			if slices.Contains(running, c.Name) {
				s.containers++
			}
		}
	}
	return s
}

// nodeSuffix is the suffix that the kubelet adds to the name of a static pod.
const nodeSuffix = "-node"

func (s state) settled() bool { return s.containers == s.wanted && s.others == 0 && s.left == 0 }

func (s state) String() string {
	text := fmt.Sprintf("%d of %d pods are there, %d of %d containers run", s.pods, s.wantedPods, s.containers, s.wanted)
	if s.others > 0 {
		text += fmt.Sprintf("; to end: %d", s.others)
	}
	if s.left > 0 {
		text += fmt.Sprintf("; left to do: %d", s.left)
	}
	return text
}
