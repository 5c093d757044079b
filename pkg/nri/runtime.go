package nri

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// ErrOtherRuntime means that a runtime without the pods listens on the socket. Two
// runtimes on a machine have the same default path, and the last one to start makes the socket.
var ErrOtherRuntime = errors.New("the runtime at this socket is not the one with the pods")

// checkTimeout bounds a question of a comparer. In the first one, the runtime creates no container.
const checkTimeout = time.Second

// lister lists the pods of a container runtime.
type lister interface {
	List(ctx context.Context) ([]cri.Pod, []cri.Container, error)
}

// checkInterval is the time between two questions of a comparer.
const checkInterval = 5 * time.Second

// comparer compares the pods of NRI with the pods of the container runtime. Runtimes without pods
// cannot be distinguished. After a boot the daemon connects before the first pod runs. So the
// comparer queries the runtime until it has a pod.
type comparer struct {
	runtime  lister // nil: not compared
	interval time.Duration

	mu   sync.Mutex
	seen map[string]bool // ids of pods that NRI has reported; nil if the comparer is certain
}

// begin compares pods, which NRI reports at the beginning of a connection. It returns
// ErrOtherRuntime if NRI has other pods than the runtime. Without an answer of the runtime, or
// without pods on both sides, it returns nil, and watch decides.
func (w *comparer) begin(ctx context.Context, pods []cri.Pod) error {
	if w.runtime == nil {
		return nil
	}
	w.mu.Lock()
	w.seen = make(map[string]bool, len(pods))
	for _, p := range pods {
		w.seen[p.ID] = true
	}
	w.mu.Unlock()
	ready, err := w.compare(ctx)
	if err == nil && w.isUncertain() && ready+len(pods) > 0 { // the pods of NRI all run
		return fmt.Errorf("%w: its %d pods and the %d running pods of the container runtime share no id", ErrOtherRuntime, len(pods), ready)
	}
	return nil // a busy runtime is no other runtime
}

// watch compares the pods again while the comparer is not certain. It returns ErrOtherRuntime if the
// runtime has pods that run, and NRI has reported none of them. A runtime reports a pod to NRI
// before the pod is ready.
func (w *comparer) watch(ctx context.Context) error {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for w.isUncertain() {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if ready, err := w.compare(ctx); err == nil && w.isUncertain() && ready > 0 {
			return fmt.Errorf("%w: NRI has reported none of the %d running pods of the container runtime", ErrOtherRuntime, ready)
		}
	}
	return nil
}

// compare asks the runtime for its pods, and returns the number of running pods. If NRI has
// reported one of the pods, the comparer becomes certain.
func (w *comparer) compare(ctx context.Context) (ready int, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	own, _, err := w.runtime.List(ctx)
	if err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range own {
		if w.seen[p.ID] {
			w.seen = nil
			return 0, nil
		}
		if p.Ready {
			ready++
		}
	}
	return ready, nil
}

func (w *comparer) isUncertain() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen != nil
}

// note records that NRI has reported a pod, or its removal.
func (w *comparer) note(id string, exists bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.seen == nil:
	case exists:
		w.seen[id] = true
	default:
		delete(w.seen, id)
	}
}
