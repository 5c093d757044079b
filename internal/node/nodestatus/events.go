package nodestatus

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Problem is something of a pod that is not as it asks for; without a Pod, and then
// with nothing but Code and Text, it is of the Node.
type Problem struct {
	UID, Namespace, Pod string
	// Container is empty for a problem of the whole pod.
	Container string
	// Code is the stable name of the reason, Text the sentence.
	Code, Text string
}

// How often one problem is told: an event lives for an hour, and a problem that comes
// and goes is one.
const (
	againAfter  = 30 * time.Minute
	forgetAfter = 30 * time.Minute
)

// eventBurst and eventPause are the rate of all events together.
const (
	eventBurst = 20
	eventPause = 5 * time.Second
)

// problemKey is a problem without its numbers.
type problemKey struct{ uid, container, code string }

// report is what has been told of a problem.
type report struct {
	Problem
	name  string // of the event; empty while there is none
	text  string // of the event: it cannot be changed
	count int    // how often it has appeared or been told again
	told  time.Time
	since time.Time
	seen  time.Time // last time that there was the problem
	now   bool
}

// reporter decides which problems are told when.
type reporter struct {
	settle  time.Duration // see Limits
	reports map[problemKey]*report
	tokens  float64
	filled  time.Time
}

func newReporter(settle time.Duration) *reporter {
	return &reporter{settle: settle, reports: make(map[problemKey]*report), tokens: eventBurst}
}

// note takes over the problems that there are.
func (r *reporter) note(problems []Problem, now time.Time) {
	for _, known := range r.reports {
		if known.now {
			known.now, known.seen = false, now
		}
	}
	for _, p := range problems {
		key := problemKey{p.UID, p.Container, p.Code}
		if r.reports[key] == nil {
			r.reports[key] = &report{since: now}
		}
		known := r.reports[key]
		known.Problem, known.now, known.seen = p, true, now
	}
	maps.DeleteFunc(r.reports, func(_ problemKey, known *report) bool {
		return !known.now && now.Sub(known.seen) >= forgetAfter
	})
}

// due returns the problem that is to be told, nil when there is none, and when to ask
// again, zero for not before the next note.
func (r *reporter) due(now time.Time) (next *report, later time.Time) {
	r.tokens = min(r.tokens+now.Sub(r.filled).Seconds()/eventPause.Seconds(), eventBurst)
	r.filled = now
	for _, known := range slices.SortedFunc(maps.Values(r.reports), compareReports) {
		at := known.since.Add(r.settle)
		if !known.told.IsZero() {
			at = known.told.Add(againAfter)
		}
		switch {
		case !known.now:
		case now.Before(at):
			if later.IsZero() || at.Before(later) {
				later = at
			}
		case r.tokens < 1:
			return nil, now.Add(time.Duration((1 - r.tokens) * float64(eventPause)))
		default:
			return known, now
		}
	}
	return nil, later
}

// compareReports puts those first that have never been told, then the longest ago.
func compareReports(a, b *report) int {
	return cmp.Or(a.told.Compare(b.told), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod),
		cmp.Compare(a.Container, b.Container), cmp.Compare(a.Code, b.Code), cmp.Compare(a.UID, b.UID))
}

// spent notes that a problem was told, or that it cannot be.
func (r *reporter) spent(what *report, name string, now time.Time) {
	r.tokens--
	if what.name != name {
		what.name, what.text, what.count = name, what.Text, 0
	}
	what.told = now
	what.count++
}

// tell writes the event of a problem, or that it is still there, and returns the
// event's name.
func (c *client) tell(ctx context.Context, r *report, node string, now time.Time) (name string, err error) {
	subject := r.Problem
	regarding := map[string]string{"apiVersion": "v1", "kind": "Pod", "namespace": r.Namespace, "name": r.Pod, "uid": r.UID}
	if subject.Pod == "" {
		// As the kubelet's own events: kubectl describe looks for the name as UID.
		subject.Pod, subject.Namespace = node, "default"
		regarding = map[string]string{"apiVersion": "v1", "kind": "Node", "name": node, "uid": node}
	}
	const stamp = "2006-01-02T15:04:05.000000Z07:00" // metav1.MicroTime
	events := "/apis/events.k8s.io/v1/namespaces/" + url.PathEscape(subject.Namespace) + "/events"
	if r.name != "" && r.text == r.Text {
		err := c.call(ctx, "PATCH", events+"/"+url.PathEscape(r.name), mergePatch, encode(map[string]any{
			"series": map[string]any{"count": r.count + 1, "lastObservedTime": now.UTC().Format(stamp)},
		}), nil)
		if !isStatus(err, 404) {
			return r.name, err
		}
	}
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	if r.Container != "" {
		regarding["fieldPath"] = "spec.containers{" + r.Container + "}"
	}
	// A pod's name has up to 253 characters, and the event's must not have more.
	name = strings.TrimRight(subject.Pod[:min(len(subject.Pod), 230)], "-.") + "." + hex.EncodeToString(random)
	return name, c.call(ctx, "POST", events, "application/json", encode(map[string]any{
		"apiVersion":          "events.k8s.io/v1",
		"kind":                "Event",
		"metadata":            map[string]string{"name": name, "namespace": subject.Namespace},
		"eventTime":           now.UTC().Format(stamp),
		"reportingController": "cpupoold.io/cpupoold",
		"reportingInstance":   clipName(node),
		"action":              "Placing",
		"reason":              r.Code,
		"type":                "Warning",
		"note":                clip(r.Text),
		"regarding":           regarding,
	}), nil)
}

// clipName shortens what is bounded to 128 bytes (reportingInstance).
func clipName(s string) string { return s[:min(len(s), 128)] }
