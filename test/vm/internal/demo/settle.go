package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// settleLimit is generous: an emulated kubelet takes seconds for each pod.
const settleLimit = 10 * time.Minute

// settle starts pods, ends all others, and waits until all their containers run and the daemon has nothing left to write.
func (s *scene) settle(ctx context.Context, all []manifest.Pod) (preview.Preview, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, settleLimit, fmt.Errorf("not there after %v", settleLimit))
	defer cancel()
	if err := apply(ctx, s.m, all); err != nil {
		return preview.Preview{}, err
	}
	tick := time.NewTicker(2 * time.Second) // each look costs the node a second of CPU time
	defer tick.Stop()
	for last := ""; ; {
		shown, err := plan(ctx, s.m)
		state := stateOf(all, shown)
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

// clip cuts text for a line of progress.
func clip(text string) string {
	const longest = width - len("12345 s    ...")
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > longest {
		return text[:longest] + "..."
	}
	return text
}

// plan asks the daemon's own command what there is and what is left to do.
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

// state is how far a node is on the way to rest.
type state struct {
	pods, wantedPods   int
	containers, wanted int // containers count when they run
	others             int // pods that are to end
	left               int // writes, also deferred ones, and objects that could not be read
}

func stateOf(want []manifest.Pod, p preview.Preview) state {
	there, running := make(map[string]bool), make(map[string]bool)
	for _, pod := range p.Plan.Pods {
		name := pod.Namespace + "/" + pod.Name
		there[name] = true
		for _, c := range pod.Containers {
			if c.Kind == pools.App && c.State == pools.Running {
				running[name+"/"+c.Name] = true
			}
		}
	}
	s := state{wantedPods: len(want), left: len(p.Writes) + len(p.Deferred) + len(p.Unread)}
	for _, pod := range want {
		name := pod.Namespace + "/" + pod.Name + nodeSuffix
		if there[name] {
			s.pods++
			delete(there, name)
		}
		for _, c := range pod.Containers {
			s.wanted++
			if running[name+"/"+c.Name] {
				s.containers++
			}
		}
	}
	s.others = len(there)
	return s
}

// nodeSuffix is what the kubelet adds to the name of a static pod.
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
