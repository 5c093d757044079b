package nodestatus

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/layout"
)

// Problem is a problem of a pod. Without a Pod it belongs to the Node, with only Code and Text.
type Problem struct {
	UID, Namespace, Pod string
	// Container is empty for a problem of the whole pod.
	Container string
	// Code is the stable name of the reason, Text a sentence.
	Code, Text string
}

// Intervals for one problem. The API server deletes an event after an hour. A problem that
// returns within forgetTimeout is the same one.
const (
	repeatInterval = 30 * time.Minute
	forgetTimeout  = 30 * time.Minute
)

// eventBurst is the maximum number of events at once. Further events follow at eventInterval.
const (
	eventBurst    = 20
	eventInterval = 5 * time.Second
)

// problemKey identifies a problem of a pod, whatever the numbers in its text are.
type problemKey struct{ uid, code string }

type reportedProblem struct {
	Problem
	name      string // of the event; empty if none was written
	text      string // of the event: it cannot be changed
	count     int    // writes of the event
	writtenAt time.Time
	firstSeen time.Time
	lastSeen  time.Time // last time at which the problem was present
	present   bool
}

type reporter struct {
	settle   time.Duration // see Limits
	reported map[problemKey]*reportedProblem
	tokens   float64
	tokensAt time.Time
}

// note replaces the current problems. The first container of a pod represents the others.
func (r *reporter) note(problems []Problem, now time.Time) {
	for _, known := range r.reported {
		if known.present {
			known.present, known.lastSeen = false, now
		}
	}
	for _, p := range problems {
		key := problemKey{p.UID, p.Code}
		if r.reported[key] == nil {
			r.reported[key] = &reportedProblem{firstSeen: now}
		}
		if known := r.reported[key]; !known.present {
			known.Problem, known.present, known.lastSeen = p, true, now
		}
	}
	maps.DeleteFunc(r.reported, func(_ problemKey, known *reportedProblem) bool {
		return !known.present && now.Sub(known.lastSeen) >= forgetTimeout
	})
}

// due returns a problem whose event must be written now, or the time of the next call.
func (r *reporter) due(now time.Time) (next *reportedProblem, later time.Time) {
	r.tokens = min(r.tokens+now.Sub(r.tokensAt).Seconds()/eventInterval.Seconds(), eventBurst)
	r.tokensAt = now
	for _, known := range slices.SortedFunc(maps.Values(r.reported), compareReported) {
		at := known.firstSeen.Add(r.settle)
		if !known.writtenAt.IsZero() {
			at = known.writtenAt.Add(repeatInterval)
		}
		switch {
		case !known.present:
		case now.Before(at):
			later = earlier(later, at)
		case r.tokens < 1:
			return nil, now.Add(time.Duration((1 - r.tokens) * float64(eventInterval)))
		default:
			return known, now
		}
	}
	return nil, later
}

// compareReported sorts problems without an event first, then by the age of the last write.
func compareReported(a, b *reportedProblem) int {
	return cmp.Or(a.writtenAt.Compare(b.writtenAt), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod),
		cmp.Compare(a.Container, b.Container), cmp.Compare(a.Code, b.Code), cmp.Compare(a.UID, b.UID))
}

// noteWritten records that an event was written, or that the API server refused it for good.
func (r *reporter) noteWritten(what *reportedProblem, name string, now time.Time) {
	r.tokens--
	if what.name != name {
		what.name, what.text, what.count = name, what.Text, 0
	}
	what.writtenAt = now
	what.count++
}

// writeEvent creates an event, or increments its series. Each daemon computes the same name.
func (c *client) writeEvent(ctx context.Context, r *reportedProblem, node string, now time.Time) (name string, err error) {
	subject := r.Problem
	regarding := map[string]string{"apiVersion": "v1", "kind": "Pod", "namespace": r.Namespace, "name": r.Pod, "uid": r.UID}
	if subject.Pod == "" {
		// kubectl describe searches for the node name as UID, as in events of the kubelet.
		subject.Pod, subject.Namespace = node, "default"
		regarding = map[string]string{"apiVersion": "v1", "kind": "Node", "name": node, "uid": node}
	}
	const microTime = "2006-01-02T15:04:05.000000Z07:00" // metav1.MicroTime
	events := "/apis/events.k8s.io/v1/namespaces/" + url.PathEscape(subject.Namespace) + "/events"
	if r.name != "" && r.text == r.Text {
		err := c.call(ctx, "PATCH", events+"/"+url.PathEscape(r.name), mergePatch, encode(map[string]any{
			"series": map[string]any{"count": r.count + 1, "lastObservedTime": now.UTC().Format(microTime)},
		}), nil)
		if !isStatus(err, 404) {
			return r.name, err
		}
	}
	if r.Container != "" {
		regarding["fieldPath"] = "spec.containers{" + r.Container + "}"
	}
	// Names of pods and events have at most 253 characters.
	digest := sha256.Sum256([]byte(strings.Join([]string{r.UID, r.Code, r.Text}, "\x00")))
	name = strings.TrimRight(subject.Pod[:min(len(subject.Pod), 230)], "-.") + "." + hex.EncodeToString(digest[:8])
	err = c.call(ctx, "POST", events, "application/json", encode(map[string]any{
		"apiVersion":          "events.k8s.io/v1",
		"kind":                "Event",
		"metadata":            map[string]string{"name": name, "namespace": subject.Namespace},
		"eventTime":           now.UTC().Format(microTime),
		"reportingController": "cpupoold.io/cpupoold",
		"reportingInstance":   node[:min(len(node), 128)], // the limit of the API
		"action":              "Placing",
		"reason":              r.Code,
		"type":                "Warning",
		"note":                layout.Clip(r.Text, maxMessage),
		"regarding":           regarding,
	}), nil)
	if isStatus(err, 409) { // the event exists
		err = nil
	}
	return name, err
}
