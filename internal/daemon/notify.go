package daemon

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// maxSilence is how long the owner may be silent before it counts as hung. It never waits,
// so even on a node that starves it of CPU a minute is out of the ordinary. The resync is a
// sign of life, too, and by default every 30 s: half of this must be longer, or the owner
// would wake for nothing else.
const maxSilence = 90 * time.Second

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

// alive is called by the owner after each round of events, and when a pulse is due. It feeds
// the watchdog, so that a hung owner is restarted.
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

// pulse is when the owner has to call alive again although nothing has happened; ok is false
// when it need not, because the resync that is due then comes before. A resync that is not
// to come (any more) is none: until the runtime has answered, nobody knows when the next is.
func (n notifier) pulse(resync time.Time) (at time.Time, ok bool) {
	return nextPulse(n.heartbeat(), *n.fed, resync, n.watchdog)
}

// nextPulse is that of an owner that was last alive, and fed the watchdog, at these times.
// Half of each patience is left for a node that starves the owner.
func nextPulse(alive, fed, resync time.Time, watchdog time.Duration) (at time.Time, ok bool) {
	at = alive.Add(maxSilence / 2)
	if hungry := fed.Add(watchdog / 2); watchdog > 0 && hungry.Before(at) {
		at = hungry
	}
	return at, !resync.After(alive) || resync.After(at)
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
