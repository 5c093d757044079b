package daemon

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// pulsePeriod is how often the owner shows that it is alive when nothing happens,
// maxSilence how long it may be silent before it counts as hung. It never waits,
// so even on a node that starves it of CPU a minute is out of the ordinary.
const (
	pulsePeriod = 10 * time.Second
	maxSilence  = time.Minute
)

// notifier tells the service manager, and whoever asks, that the owner is alive.
type notifier struct {
	log      *slog.Logger
	last     *atomic.Pointer[time.Time] // heartbeat, with the reading of the clock that nobody sets
	watchdog time.Duration              // WatchdogSec of the unit, 0 without
	fed      *time.Time
}

func newNotifier(log *slog.Logger) (notifier, error) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return notifier{}, err
	}
	n := notifier{log: log, last: new(atomic.Pointer[time.Time]), watchdog: interval, fed: new(time.Time)}
	now := time.Now()
	n.last.Store(&now)
	return n, nil
}

// ready says that the first pass is complete (sd_notify(3)), and that there is
// nothing more to say about the start.
func (n notifier) ready() { tell(n.log, daemon.SdNotifyReady+"\n"+statusPrefix) }

// alive is called by the owner after each round of events, at least once every
// pulse. It feeds the watchdog, so that a hung owner is restarted.
func (n notifier) alive() {
	now := time.Now()
	n.last.Store(&now)
	if n.watchdog > 0 && now.Sub(*n.fed) >= n.watchdog/4 {
		*n.fed = now
		tell(n.log, daemon.SdNotifyWatchdog)
	}
}

func (n notifier) stopping() { tell(n.log, daemon.SdNotifyStopping) }

// heartbeat is when the owner was last seen alive.
func (n notifier) heartbeat() time.Time { return *n.last.Load() }

// pulse is how often an owner without events has to call alive.
func (n notifier) pulse() time.Duration {
	if n.watchdog > 0 {
		return min(pulsePeriod, n.watchdog/4)
	}
	return pulsePeriod
}

const statusPrefix = "STATUS="

// tellStatus says in one line what the daemon is doing: systemctl status shows it.
func tellStatus(log *slog.Logger, status string) {
	tell(log, statusPrefix+strings.ReplaceAll(status, "\n", "; "))
}

// tell sends a state to the service manager, if there is one.
func tell(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("notify service manager", "state", state, "error", err)
	}
}
