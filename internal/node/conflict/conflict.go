// Package conflict paces the repairs of a value that another process overwrites after each
// repair. Without pauses, the daemon and the other process would overwrite each other without end.
package conflict

import "time"

// The pause of repairs doubles from FirstPause to LastPause.
const (
	FirstPause = time.Minute
	LastPause  = 10 * time.Minute
)

// Limits are the limits for values of one kind.
type Limits struct {
	// Repairs is the number of repairs in Window after which repairs pause.
	Repairs int
	// Window is also the time without external writes after which a conflict is over.
	Window time.Duration
}

// Writes holds the external writes of a value, and the pause of its repairs.
type Writes struct {
	latest []time.Time // Limits.Repairs+1 at most
	pause  time.Duration
	until  time.Time
}

// Note adds an external write. It reports whether a new pause of the repairs begins.
func (w *Writes) Note(l Limits, now time.Time) bool {
	if w.latest = append(w.latest, now); len(w.latest) > l.Repairs+1 {
		w.latest = w.latest[1:]
	}
	again := w.pause > 0 && now.Sub(w.until) < l.Window
	if !again && (len(w.latest) <= l.Repairs || now.Sub(w.latest[0]) >= l.Window) {
		return false
	}
	w.pause = min(max(2*w.pause, FirstPause), LastPause)
	w.until = now.Add(w.pause)
	return true
}

// Last returns the time of the latest external write, or the zero time.
func (w *Writes) Last() time.Time {
	if len(w.latest) == 0 {
		return time.Time{}
	}
	return w.latest[len(w.latest)-1]
}

// Until returns the end of the latest pause, or the zero time if repairs have never paused.
func (w *Writes) Until() time.Time { return w.until }

// IsOver reports whether the other process has stopped its writes.
func (w *Writes) IsOver(l Limits, now time.Time) bool {
	return now.Sub(w.Last()) > l.Window && now.Sub(w.until) > l.Window
}
