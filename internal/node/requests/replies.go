package requests

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// replyTimes holds the times from the arrival of requests to their replies, in seconds. A canceled request
// counts when the queue drops it.
type replyTimes struct{ creates, starts telemetry.Histogram }

// newReplyTimes returns no times. Most replies take less than a millisecond.
func newReplyTimes() replyTimes {
	bounds := []float64{0.0001, 0.00025, 0.0005}
	return replyTimes{telemetry.NewHistogram(bounds...), telemetry.NewHistogram(bounds...)}
}

// ReplyTimes returns the times from the arrival of requests to their replies, by the kind of request.
func (q *Queue) ReplyTimes() map[string]telemetry.Histogram {
	return map[string]telemetry.Histogram{"create": q.replies.creates.Clone(), "start": q.replies.starts.Clone()}
}

// Refuse answers that the runtime must not create the container. The queue must not contain the request.
func (q *Queue) Refuse(a *Create, why error) { q.answerCreate(a, nri.Reply{}, why) }

// answerCreate sends a reply, or the reason for a refusal.
func (q *Queue) answerCreate(a *Create, reply nri.Reply, err error) {
	q.observe(&q.replies.creates, a.since)
	a.Answer(reply, err)
}

// observe adds the time since the arrival of a request.
func (q *Queue) observe(to *telemetry.Histogram, since time.Time) {
	to.Observe(q.clock().Sub(since).Seconds())
}
