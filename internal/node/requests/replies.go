package requests

import (
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// replyTimes holds the times from the arrival of requests to their replies, in seconds. Canceled requests
// do not count.
type replyTimes struct{ creates, starts telemetry.Histogram }

// ReplyTimes returns the times from the arrival of requests to their replies, by the kind of request.
func (q *Queue) ReplyTimes() map[string]telemetry.Histogram {
	return map[string]telemetry.Histogram{"create": q.replies.creates.Clone(), "start": q.replies.starts.Clone()}
}

// Refuse answers that the runtime must not create the container. The queue must not have the request.
func (q *Queue) Refuse(a *Create, why error) { q.answerCreate(a, nri.Reply{}, why) }

func (q *Queue) answerCreate(a *Create, reply nri.Reply, err error) {
	q.replies.creates.Observe(q.clock().Sub(a.since).Seconds())
	a.Answer(reply, err)
}

func (q *Queue) answerStart(a *Start, err error) {
	q.replies.starts.Observe(q.clock().Sub(a.since).Seconds())
	a.Answer(struct{}{}, err)
}
