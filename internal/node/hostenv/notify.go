package hostenv

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// MaxSilence is how long the owner may be silent before it counts as hung. It never waits,
// so even on a node that starves it of CPU a minute is out of the ordinary. The resync is a
// sign of life, too, and by default every 30 s: half of this must be longer, or the owner
// would wake for nothing else.
const MaxSilence = 90 * time.Second

// Notifier tells the service manager, and whoever asks, that the owner is alive.
type Notifier struct {
	Log      *slog.Logger
	Last     *atomic.Pointer[time.Time] // heartbeat, with the reading of the clock that nobody sets
	Watchdog time.Duration              // WatchdogSec of the unit, 0 without
	Fed      *time.Time
}

func NewNotifier(log *slog.Logger) (Notifier, error) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return Notifier{}, err
	}
	n := Notifier{Log: log, Last: new(atomic.Pointer[time.Time]), Watchdog: interval, Fed: new(time.Time)}
	now := time.Now()
	n.Last.Store(&now)
	return n, nil
}

// Ready says that the first pass is complete (sd_notify(3)), and that there is
// nothing more to say about the start.
func (n Notifier) Ready() { tell(n.Log, daemon.SdNotifyReady+"\n"+statusPrefix) }

// Alive is called by the owner after each round of events, and when a pulse is due. It feeds
// the watchdog, so that a hung owner is restarted.
func (n Notifier) Alive(now time.Time) {
	n.Last.Store(&now)
	if n.Watchdog > 0 && now.Sub(*n.Fed) >= n.Watchdog/4 {
		*n.Fed = now
		tell(n.Log, daemon.SdNotifyWatchdog)
	}
}

func (n Notifier) Stopping() { tell(n.Log, daemon.SdNotifyStopping) }

// Heartbeat is when the owner was last seen alive.
func (n Notifier) Heartbeat() time.Time { return *n.Last.Load() }

// Pulse is when the owner has to call alive again although nothing has happened; ok is false
// when it need not, because the resync that is due then comes before. A resync that is not
// to come (any more) is none: until the runtime has answered, nobody knows when the next is.
func (n Notifier) Pulse(resync time.Time) (at time.Time, ok bool) {
	return NextPulse(n.Heartbeat(), *n.Fed, resync, n.Watchdog)
}

// NextPulse is that of an owner that was last alive, and fed the watchdog, at these times.
// Half of each patience is left for a node that starves the owner.
func NextPulse(alive, fed, resync time.Time, watchdog time.Duration) (at time.Time, ok bool) {
	at = alive.Add(MaxSilence / 2)
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
