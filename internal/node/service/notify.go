package service

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// maxSilence is the time without a heartbeat of a hung loop. Half of it must exceed the default
// resync period of 30 s, whose heartbeats need no timer.
const maxSilence = 90 * time.Second

// Notifier reports that the event loop is alive. Only Heartbeat is for other goroutines.
type Notifier struct {
	log      *slog.Logger
	alive    *atomic.Pointer[time.Time] // with a monotonic reading of the clock
	watchdog time.Duration              // WatchdogSec of the unit; 0: no watchdog
	fed      time.Time                  // last notification of the watchdog
}

// NewNotifier returns a notifier with the watchdog's interval from the environment.
func NewNotifier(log *slog.Logger) (*Notifier, error) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, err
	}
	n := &Notifier{log: log, alive: new(atomic.Pointer[time.Time]), watchdog: interval}
	now := time.Now()
	n.alive.Store(&now)
	return n, nil
}

// Ready reports that the first pass is complete (sd_notify(3)), and clears the status text.
func (n *Notifier) Ready() { notify(n.log, daemon.SdNotifyReady+"\n"+statusPrefix) }

// Alive records a heartbeat at now. The event loop calls it after each round of events, and when
// Pulse is due. Without these calls the service manager's watchdog restarts the daemon.
func (n *Notifier) Alive(now time.Time) {
	n.alive.Store(&now)
	if n.watchdog > 0 && now.Sub(n.fed) >= n.watchdog/4 {
		n.fed = now
		notify(n.log, daemon.SdNotifyWatchdog)
	}
}

// Stopping reports that the daemon ends.
func (n *Notifier) Stopping() { notify(n.log, daemon.SdNotifyStopping) }

// MaxSilence returns the time without a heartbeat after which the event loop counts as hung.
func (n *Notifier) MaxSilence() time.Duration { return maxSilence }

// Heartbeat returns the time of the last heartbeat.
func (n *Notifier) Heartbeat() time.Time { return *n.alive.Load() }

// Pulse returns when the event loop has to call Alive although nothing has happened, or the zero
// time if the resync comes before. Resync is the time of the next resync; while the runtime's
// answer is awaited, that time has passed and the next resync is unknown.
func (n *Notifier) Pulse(resync time.Time) time.Time {
	if at, needed := nextPulse(n.Heartbeat(), n.fed, resync, n.watchdog); needed {
		return at
	}
	return time.Time{}
}

// nextPulse uses half of maxSilence and of the watchdog's interval: the rest is for a node that
// gives the loop hardly any CPU time.
func nextPulse(alive, fed, resync time.Time, watchdog time.Duration) (at time.Time, needed bool) {
	at = alive.Add(maxSilence / 2)
	if due := fed.Add(watchdog / 2); watchdog > 0 && due.Before(at) {
		at = due
	}
	return at, !resync.After(alive) || resync.After(at)
}

const statusPrefix = "STATUS="

// NotifyStatus reports in one line what the daemon does; systemctl status shows it.
func NotifyStatus(log *slog.Logger, status string) {
	notify(log, statusPrefix+strings.ReplaceAll(status, "\n", "; "))
}

func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("notify service manager", "state", state, "error", err)
	}
}
