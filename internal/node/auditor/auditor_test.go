package auditor_test

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
	"github.com/cpupoold/cpupoold/internal/node/auditor"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// fakeScans report the same task with each look, running on CPU 4.
type fakeScans struct {
	scans int
	fails error
}

func (e *fakeScans) Scan(audit.Ownership, uint64) error { e.scans++; return e.fails }

func (e *fakeScans) Evidence() (audit.Evidence, []string) {
	return audit.Evidence{Elapsed: 4e9, Tasks: []audit.Task{{Reading: audit.Reading{TID: 1, Comm: "hog"}, PID: 1, Allowed: cpuset.Of(4), Ran: map[int]uint64{4: 1e9}}},
		Lines: []audit.Line{{Name: "25", Text: "chip eth0", Counts: map[int]uint64{4: 3}}}}, nil
}

func TestAuditor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		a := auditor.New()
		see := &fakeScans{}
		opened := 0
		show := func(interval time.Duration, owners ...audit.Place) {
			a.Show(auditor.Scene{Interval: interval, Ownership: audit.Ownership{Places: owners, Pools: []audit.Pool{{PoolName: audit.PoolName{Pool: "guaranteed"}, CPUs: cpuset.Range(4, 7)}}}})
			synctest.Wait()
		}
		du := audit.Place{PoolName: audit.PoolName{Pool: "guaranteed"}, Name: "du", Cgroup: "du", CPUs: cpuset.Range(4, 5), Exclusive: true}
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.Run(ctx, slog.New(slog.NewTextHandler(&log, nil)), func() (auditor.Watcher, error) {
				opened++
				return see, nil
			})
		}()
		show(time.Minute, du)
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		ignore := cmpopts.IgnoreFields(telemetry.Audit{}, "Seconds")
		pool := telemetry.AuditPool{PoolName: telemetry.PoolName{Pool: "guaranteed"}, Known: true, Score: 1 - 1.0/8, ExposedTasks: 1, ExposedInterrupts: 0, Others: 1, Interrupts: 3}
		if d := cmp.Diff(&telemetry.Audit{Pools: []telemetry.AuditPool{pool}, Scans: 2}, a.Result(), ignore, cmpopts.EquateApprox(0, 1e-9)); d != "" {
			t.Errorf("after two looks (-want +got):\n%s", d)
		}
		show(2 * time.Minute)   // no owner is left: CPUs that have changed hands are not examined
		time.Sleep(time.Minute) //nolint:forbidigo // likewise
		synctest.Wait()
		pool = telemetry.AuditPool{PoolName: pool.PoolName, Others: 1, Interrupts: 3}
		if d := cmp.Diff(&telemetry.Audit{Pools: []telemetry.AuditPool{pool}, Scans: 3}, a.Result(), ignore); d != "" {
			t.Errorf("when the owner has gone (-want +got):\n%s", d)
		}
		see.fails = errors.New("no process")
		show(time.Minute)
		time.Sleep(3 * time.Minute) //nolint:forbidigo // likewise
		synctest.Wait()
		if f := a.Result(); f.Failed != 4 || strings.Count(log.String(), "no process") != 1 {
			t.Errorf("%d looks have failed, log %s; want 4, and one line", f.Failed, &log)
		}
		show(0)
		time.Sleep(time.Hour) //nolint:forbidigo // likewise
		synctest.Wait()
		if a.Result() != nil || opened != 1 || see.scans != 7 {
			t.Errorf("off: %v, opened %d, %d looks", a.Result(), opened, see.scans)
		}
		cancel()
		<-done
	})
}
