package waits_test

import (
	"errors"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/waits"
)

// TestQuestion checks that the sender of a question gets the reply to any copy of it, and that
// the receiver sees when the sender no longer waits.
func TestQuestion(t *testing.T) {
	canceled := make(chan struct{})
	q := waits.Ask[int](canceled)
	select {
	case r := <-q.Reply():
		t.Errorf("reply %+v before the answer", r)
	default:
	}
	if q.IsCanceled() || waits.Ask[int](nil).IsCanceled() {
		t.Error("a question is canceled whose sender waits")
	}
	refused := errors.New("refused")
	other := q
	other.Answer(7, refused) // does not wait for the sender
	if r := <-q.Reply(); r.Value != 7 || !errors.Is(r.Err, refused) {
		t.Errorf("reply %+v; want 7 and %v", r, refused)
	}
	close(canceled)
	if !q.IsCanceled() || !other.IsCanceled() {
		t.Error("the sender has canceled, and the question is not canceled")
	}
}
