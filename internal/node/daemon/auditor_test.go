package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestOwnership checks that the running daemon and preview name the same owners of CPUs.
func TestOwnership(t *testing.T) {
	n := newHostNode(t, nodefixture.HostSlicesYAML)
	du := n.RunContainer(n.RunPod("g", "default", "guaranteed", 2, nil), "du", nodefixture.WholeCPUs(2))
	web := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "web", cri.Resources{Shares: 512})
	r := n.start()
	n.AwaitCPUs(du, "4-5")
	n.AwaitCPUs(web, "2-3")
	r.quiet()
	got := r.loop.auditor.input.Load()
	if got.interval != 5*time.Minute {
		t.Errorf("interval %v; want the default, 5m0s", got.interval)
	}
	places := make(map[string]string)
	for _, p := range got.ownership.Places {
		if !strings.HasPrefix(p.Cgroup, "kubepods") && p.Pod != "" {
			t.Errorf("%s/%s is in %q", p.Pod, p.Name, p.Cgroup)
		}
		text := p.Pool + " " + p.CPUs.String()
		if p.Exclusive {
			text += " alone"
		}
		places[p.Pod+" "+p.Name] = text
	}
	want := map[string]string{
		"default/g du": "guaranteed 4-5 alone", "default/s web": "shared 2-3", "default/g POD": "shared 2-3", "default/s POD": "shared 2-3",
		" init.scope": "management 0-1", " machine.slice": "management 0-1", " system.slice": "management 0-1", " user.slice": "management 0-1",
	}
	if d := cmp.Diff(want, places); d != "" {
		t.Errorf("places (-want +got):\n%s", d)
	}
	pool := func(name, typ string, cpus cpuset.Set) audit.Pool {
		return audit.Pool{PoolName: audit.PoolName{Pool: name, Type: typ}, CPUs: cpus}
	}
	pools := []audit.Pool{pool("guaranteed", "", cpuset.Range(4, 7)), pool("management", "management", cpuset.Range(0, 1)), pool("shared", "", cpuset.Range(2, 3))}
	if d := cmp.Diff(pools, got.ownership.Pools); d != "" {
		t.Errorf("pools (-want +got):\n%s", d)
	}
	byName := cmpopts.SortSlices(func(a, b audit.Place) bool { return a.Cgroup < b.Cgroup })
	if d := cmp.Diff(got.ownership, n.preview().Ownership, byName); d != "" {
		t.Errorf("without a daemon (-with +without):\n%s", d)
	}
	n.YAML = nodefixture.PoolsYAML + nodefixture.HostSlicesYAML + "audit: {interval: \"off\"}\n"
	r.loop.reload()
	n.Eventually("the audit is off", func() bool { return r.loop.auditor.input.Load().interval == 0 })
}

// fakeScans report the same task with each look, running on CPU 4.
type fakeScans struct {
	scans int
	fails error
}

func (e *fakeScans) Scan(audit.Ownership, uint64) error { e.scans++; return e.fails }

func (e *fakeScans) Evidence() (audit.Evidence, []string) {
	return audit.Evidence{Elapsed: 4e9, Tasks: []audit.Task{{PID: 1, TID: 1, Comm: "hog", Allowed: cpuset.Of(4), Ran: map[int]uint64{4: 1e9}}},
		Lines: []audit.Line{{Name: "25", Text: "chip eth0", Counts: map[int]uint64{4: 3}}}}, nil
}

func TestAuditor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		a := newAuditor()
		see := &fakeScans{}
		opened := 0
		show := func(interval time.Duration, owners ...audit.Place) {
			a.input.Store(&auditInput{interval: interval, ownership: audit.Ownership{Places: owners, Pools: []audit.Pool{{PoolName: audit.PoolName{Pool: "guaranteed"}, CPUs: cpuset.Range(4, 7)}}}})
			a.changed <- struct{}{}
			synctest.Wait()
		}
		du := audit.Place{PoolName: audit.PoolName{Pool: "guaranteed"}, Name: "du", Cgroup: "du", CPUs: cpuset.Range(4, 5), Exclusive: true}
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.run(ctx, slog.New(slog.NewTextHandler(&log, nil)), func() (watcher, error) {
				opened++
				return see, nil
			})
		}()
		show(time.Minute, du)
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		ignore := cmpopts.IgnoreFields(telemetry.Audit{}, "Seconds")
		pool := telemetry.AuditPool{PoolName: telemetry.PoolName{Pool: "guaranteed"}, Known: true, Score: 1 - 1.0/8, ExposedTasks: 1, ExposedInterrupts: 0, Others: 1, Interrupts: 3}
		if d := cmp.Diff(&telemetry.Audit{Pools: []telemetry.AuditPool{pool}, Scans: 2}, a.result.Load(), ignore, cmpopts.EquateApprox(0, 1e-9)); d != "" {
			t.Errorf("after two looks (-want +got):\n%s", d)
		}
		show(2 * time.Minute)   // no owner is left: CPUs that have changed hands are not judged
		time.Sleep(time.Minute) //nolint:forbidigo // likewise
		synctest.Wait()
		pool = telemetry.AuditPool{PoolName: pool.PoolName, Others: 1, Interrupts: 3}
		if d := cmp.Diff(&telemetry.Audit{Pools: []telemetry.AuditPool{pool}, Scans: 3}, a.result.Load(), ignore); d != "" {
			t.Errorf("when the owner has gone (-want +got):\n%s", d)
		}
		see.fails = errors.New("no process")
		show(time.Minute)
		time.Sleep(3 * time.Minute) //nolint:forbidigo // likewise
		synctest.Wait()
		if f := a.result.Load(); f.Failed != 4 || strings.Count(log.String(), "no process") != 1 {
			t.Errorf("%d looks have failed, log %s; want 4, and one line", f.Failed, &log)
		}
		show(0)
		time.Sleep(time.Hour) //nolint:forbidigo // likewise
		synctest.Wait()
		if a.result.Load() != nil || opened != 1 || see.scans != 7 {
			t.Errorf("off: %v, opened %d, %d looks", a.result.Load(), opened, see.scans)
		}
		cancel()
		<-done
	})
}
