package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/listing"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestFullDisk checks that containers are placed although the journal cannot be written. A
// problem reports it until the disk has space again.
func TestFullDisk(t *testing.T) {
	n := newNode(t)
	h := n.Host()
	// A file at the path of the state directory makes all writes fail, like a full disk.
	state := filepath.Join(n.Dir, "state")
	if err := os.WriteFile(state, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.JournalFile = filepath.Join(state, "journal.json")
	r := n.startOn(h)
	own := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(own, "4-5")
	problem := func(v *telemetry.View) bool { return v.Problems["JournalNotWritten"] == 1 }
	r.view("the problem", problem)
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	r.viewWithin(5*time.Second, "no problem any more", func(v *telemetry.View) bool { return !problem(v) })
	if _, err := os.Stat(h.JournalFile); err != nil {
		t.Error(err)
	}
	if late := n.Logged("journal is late; writes go ahead, and restore may not know the values that they replace"); len(late) > 0 {
		t.Errorf("a disk that refuses is taken for one that does not answer: %v", late)
	}
	var passes uint64
	for _, count := range r.loop.publisher.Metrics().Passes {
		passes += count
	}
	if passes > 100 {
		t.Errorf("%d passes while the disk was full", passes)
	}
	r.quiet()
	n.CheckOccupants()
}

// TestHungRuntime checks that a runtime that does not answer is a lost source, although its
// event stream is open.
func TestHungRuntime(t *testing.T) {
	n := newNode(t)
	n.YAML = strings.Replace(n.YAML, "resyncPeriod: 10m", "resyncPeriod: 1s", 1)
	r := n.start()
	state := func(s telemetry.SourceState) func(*telemetry.View) bool {
		return func(v *telemetry.View) bool { return v.Sources[telemetry.CRIEvents] == s }
	}
	r.view("stream", state(telemetry.SourceOK))
	n.Runtime.Fail("ListContainers", errors.New("no answer"))
	r.viewWithin(time.Second, "loss", state(telemetry.SourceLost))
	n.Runtime.Fail("ListContainers", nil)
	r.viewWithin(listing.RetryDelay, "runtime back", state(telemetry.SourceOK))
	n.AwaitCPUs(n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512}), "2-3")
}

// unwatchedUnits is a systemd that can end its reports of reloads.
type unwatchedUnits struct {
	*testnode.Units
	away   atomic.Bool
	begun  chan struct{} // has a value while a watch runs
	hangUp chan struct{}
}

func (u *unwatchedUnits) WatchReload(ctx context.Context, wake func()) error {
	if u.away.Load() {
		return errors.New("no such socket")
	}
	select {
	case u.begun <- struct{}{}:
	default:
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-u.hangUp:
			cancel(errors.New("connection lost"))
		case <-ctx.Done():
		}
	}()
	err := u.Units.WatchReload(ctx, wake)
	return errors.Join(err, context.Cause(ctx))
}

// TestLostSystemd checks that a systemd without reports of reloads is a lost source, until it
// reports them again.
func TestLostSystemd(t *testing.T) {
	n := newNode(t)
	h := n.Host()
	u := &unwatchedUnits{Units: n.Units, begun: make(chan struct{}, 1), hangUp: make(chan struct{})}
	h.Units = u
	r := n.startOn(h)
	state := func(s telemetry.SourceState) func(*telemetry.View) bool {
		return func(v *telemetry.View) bool { return v.Sources[telemetry.Units] == s }
	}
	r.view("systemd", state(telemetry.SourceOK))
	<-u.begun // a source that was never watched does not count as lost
	u.away.Store(true)
	u.hangUp <- struct{}{}
	r.view("loss", state(telemetry.SourceLost))
	u.away.Store(false)
	r.view("systemd back", state(telemetry.SourceOK))
}
