package daemon

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notifier tells the service manager, and whoever asks, that the owner is alive.
type notifier struct {
	log      *slog.Logger
	last     *atomic.Int64 // heartbeat, nanoseconds since the epoch
	watchdog time.Duration // WatchdogSec of the unit, 0 without
	fed      *time.Time
}

func newNotifier(log *slog.Logger) (notifier, error) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return notifier{}, err
	}
	return notifier{log: log, last: new(atomic.Int64), watchdog: interval, fed: new(time.Time)}, nil
}

// ready says that the first pass is complete (sd_notify(3)).
func (n notifier) ready() { n.send(daemon.SdNotifyReady) }

// alive is called by the owner after each round of events, at least once every
// maxSilence. It feeds the watchdog, so that a hung owner is restarted.
func (n notifier) alive() {
	now := time.Now()
	n.last.Store(now.UnixNano())
	if n.watchdog > 0 && now.Sub(*n.fed) >= n.watchdog/4 {
		*n.fed = now
		n.send(daemon.SdNotifyWatchdog)
	}
}

func (n notifier) stopping() { n.send(daemon.SdNotifyStopping) }

func (n notifier) send(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		n.log.Warn("notify service manager", "state", state, "error", err)
	}
}

// heartbeat is when the owner was last seen alive.
func (n notifier) heartbeat() time.Time { return time.Unix(0, n.last.Load()) }

// period shortens the resync so that it also feeds the watchdog in time.
func (n notifier) period(resync time.Duration) time.Duration {
	if n.watchdog > 0 {
		return min(resync, n.watchdog/3)
	}
	return resync
}
