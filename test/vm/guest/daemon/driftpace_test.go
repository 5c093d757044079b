//go:build guest

package daemon_test

import (
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// The daemon pauses its repairs after five repairs of one property in a minute.
const writesBeforeConflict, conflictWindow = 5, 61 * time.Second

// next returns the victim with the oldest write to this property. It waits until one more write causes
// no write conflict.
func (d *drifter) next(property string, of func(*victim) bool) *victim {
	all := slices.DeleteFunc(slices.Clone(d.all), func(v *victim) bool { return of != nil && !of(v) })
	more := map[string]int{property: 1}
	if d.crowded {
		more[property] = 2
	}
	if d.echoed {
		more[cgroup.FileWeight] = 2
	}
	due := func(v *victim) (at time.Time) {
		for property, n := range more {
			if t := v.due(property, n); t.After(at) {
				at = t
			}
		}
		return at
	}
	v := slices.MinFunc(all, func(a, b *victim) int { return due(a).Compare(due(b)) })
	at := due(v)
	if d.crowded {
		for _, other := range d.all {
			if t := other.due(property, 1); t.After(at) {
				at = t
			}
		}
	}
	if wait := time.Until(at); wait > 0 {
		<-time.After(wait)
	}
	now := time.Now()
	for _, other := range d.all {
		if d.crowded && other != v {
			other.writes[property] = append(other.writes[property], now)
		}
	}
	for property, n := range more {
		for range n {
			v.writes[property] = append(v.writes[property], now)
		}
	}
	return v
}

// passed moves the writes that next has prepared last, v's among them, to the present: they may have taken long.
func (d *drifter) passed(property string, v *victim) {
	began, now := v.writes[property][len(v.writes[property])-1], time.Now()
	for _, other := range d.all {
		for _, times := range other.writes {
			for i, t := range times {
				if t.Equal(began) {
					times[i] = now
				}
			}
		}
	}
}

// due returns the time from which so many more writes cause no write conflict. Fewer
// earlier writes make it earlier.
func (v *victim) due(property string, more int) time.Time {
	w, few := v.writes[property], writesBeforeConflict-more
	if len(w) <= few {
		return time.Time{}.Add(time.Duration(len(w)))
	}
	return w[len(w)-few-1].Add(conflictWindow)
}
