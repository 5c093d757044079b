package claimnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Daemon answers the control socket of a node with CPUs 2-5 in device numa0 and 6-9 in numa1.
type Daemon struct {
	mu      sync.Mutex
	log     *history.Log
	last    *history.Snapshot
	started time.Time
	answer  inspect.Claims
	refuse  error // of each preparation
	held    map[string]chan struct{}
}

func newDaemon() *Daemon {
	l := history.New()
	device := func(name string, node int, cpus cpuset.Set) inspect.ClaimDevice {
		return inspect.ClaimDevice{Name: name, Node: node, CPUs: cpus, Free: cpus, Step: 1, Packages: []int{node}, L3s: 1, ThreadsPerCore: 1}
	}
	return &Daemon{log: l, last: l.Snapshot(), started: time.Now(), answer: inspect.Claims{
		Version: inspect.Version, Ready: true, Devices: []inspect.ClaimDevice{device("numa0", 0, cpuset.Range(2, 5)), device("numa1", 1, cpuset.Range(6, 9))},
	}}
}

// Started implements control.Answers.
func (d *Daemon) Started() time.Time { return d.started }

// Status implements control.Answers.
func (d *Daemon) Status() *inspect.Status { return nil }

// Explain implements control.Answers.
func (d *Daemon) Explain(string) (*inspect.Explanation, error) { return nil, errors.New("not used") }

// History implements control.Answers.
func (d *Daemon) History() *history.Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// Claims implements control.Answers.
func (d *Daemon) Claims() *inspect.Claims {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.answer
	now.Started, now.Sequence, now.Claims = d.started, d.last.Last(), slices.Clone(d.answer.Claims)
	return &now
}

// Change changes the node, and wakes the driver.
func (d *Daemon) Change(f func(*inspect.Claims)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(&d.answer)
	d.log.Add(history.Event{Kind: history.Started})
	d.last = d.log.Snapshot()
}

// RefuseAll makes each preparation fail, or none if err is nil.
func (d *Daemon) RefuseAll(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse = err
}

// Hold makes the preparation of a claim wait until release is called.
func (d *Daemon) Hold(uid string) (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := make(chan struct{})
	d.held = map[string]chan struct{}{uid: c}
	return func() { close(c) }
}

// Has reports whether a claim is prepared.
func (d *Daemon) Has(uid string) bool {
	return slices.ContainsFunc(d.Claims().Claims, func(c inspect.Claim) bool { return c.UID == uid })
}

func (d *Daemon) prepare(_ context.Context, claim pools.Claim) (all []inspect.ClaimPart, err error) {
	d.mu.Lock()
	held := d.held[claim.UID]
	d.mu.Unlock()
	if held != nil {
		<-held
	}
	d.Change(func(now *inspect.Claims) {
		if err = d.refuse; err != nil {
			return
		}
		i := slices.IndexFunc(now.Claims, func(c inspect.Claim) bool { return c.UID == claim.UID })
		if i >= 0 && now.Claims[i].PodUID != claim.PodUID {
			err = control.Conflict{Text: "the claim is prepared for another pod"}
			return
		}
		if i < 0 {
			c := inspect.Claim{UID: claim.UID, Namespace: claim.Namespace, Name: claim.Name, PodUID: claim.PodUID}
			taken := cpuset.Set{}
			for _, o := range now.Claims {
				taken = taken.Union(o.CPUs)
			}
			for _, p := range claim.Parts {
				free := now.Devices[slices.IndexFunc(now.Devices, func(d inspect.ClaimDevice) bool { return d.Name == p.Device })].CPUs.Difference(taken)
				if free.Len() < p.CPUs {
					err = control.Conflict{Text: fmt.Sprintf("claim %s/%s: %d CPUs of %s; want %d", claim.Namespace, claim.Name, free.Len(), p.Device, p.CPUs)}
					return
				}
				cpus := cpuset.Of(slices.Collect(free.All())[:p.CPUs]...)
				taken, c.CPUs = taken.Union(cpus), c.CPUs.Union(cpus)
				c.Parts = append(c.Parts, inspect.ClaimPart{Request: p.Request, Device: p.Device, ShareID: p.ShareID, CPUs: cpus})
			}
			now.Claims = append(now.Claims, c)
			i = len(now.Claims) - 1
		}
		all = now.Claims[i].Parts
	})
	return all, err
}

func (d *Daemon) end(_ context.Context, uid, podUID string) (err error) {
	d.Change(func(now *inspect.Claims) {
		now.Claims = slices.DeleteFunc(now.Claims, func(c inspect.Claim) bool {
			if c.UID == uid && podUID != "" && c.PodUID != podUID {
				err = control.Conflict{Text: fmt.Sprintf("claim %s/%s is prepared for pod %s", c.Namespace, c.Name, c.PodUID)}
			}
			if c.UID == uid && c.Pod != "" && len(c.Containers) > 0 {
				err = control.Conflict{Text: fmt.Sprintf("claim %s/%s: container %s runs", c.Namespace, c.Name, c.Containers[0])}
			}
			return c.UID == uid && err == nil
		})
	})
	return err
}
