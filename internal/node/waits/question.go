package waits

// Question is a question to the event loop. The sender waits for the reply until the runtime
// or the operator cancels. Copies are the same question.
type Question[R any] struct {
	canceled <-chan struct{}
	reply    chan Reply[R]
}

// Reply is the reply to a question: a value, or the reason for a refusal.
type Reply[R any] struct {
	Value R
	Err   error
}

// Ask returns a question. canceled is closed when the sender no longer waits; nil means never.
func Ask[R any](canceled <-chan struct{}) Question[R] {
	return Question[R]{canceled, make(chan Reply[R], 1)}
}

// Reply returns the channel that delivers the reply.
func (q Question[R]) Reply() <-chan Reply[R] { return q.reply }

// Answer sends the reply. It must be called at most once, and never waits.
func (q Question[R]) Answer(value R, err error) { q.reply <- Reply[R]{value, err} }

// IsCanceled reports whether the sender no longer waits.
func (q Question[R]) IsCanceled() bool {
	select {
	case <-q.canceled:
		return true
	default:
		return false
	}
}
