package daemon

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
)

// bareLoop returns a loop that does not run, so that a test can call its methods. Answers of
// workers wait in its mailbox.
func (n *node) bareLoop(h hostenv.Host) *Loop {
	n.T.Helper()
	l, err := newLoop(h, n.options())
	if err != nil {
		n.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, wait := startWorkers(ctx, l)
	n.T.Cleanup(func() { cancel(); wait() })
	return l
}
