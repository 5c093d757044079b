package requests

import (
	"errors"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// ErrUndecided is the decision about a request that must wait.
var ErrUndecided = errors.New("not decided yet")

// Create asks for the CPUs of a container that the runtime is about to create. With an error in
// the reply, the runtime creates no container.
type Create struct {
	request[nri.Reply]
	Pod       cri.Pod
	Container cri.Container
	updates   []nri.Update // part of the reply
}

// NewCreate returns a request that has arrived at a time. canceled is closed when the runtime no
// longer waits.
func NewCreate(pod cri.Pod, container cri.Container, since time.Time, canceled <-chan struct{}) *Create {
	return &Create{request: request[nri.Reply]{Question: waits.Ask[nri.Reply](canceled), since: since}, Pod: pod, Container: container}
}

// WithoutForeign returns the variables of a reply, and an empty OPENSHIFT_SHARED_CPUS if the
// container has one that is not in the reply. In each update CRI-O adds the CPUs in this
// variable to the cpuset, and ignores an empty one. With another runtime, the application
// would take foreign CPUs for its shared CPUs.
func (a *Create) WithoutForeign(env map[string]string) map[string]string {
	if _, ours := env[cri.SharedCPUsVariable]; !ours && a.Container.SharedCPUs != "" {
		env[cri.SharedCPUsVariable] = ""
	}
	return env
}

// Start asks whether the first process of a container may continue.
type Start struct {
	request[struct{}]
	ID    string // of the container
	noted bool   // MarkStarting has seen it
}

// NewStart returns a request that has arrived at a time. canceled is closed when the runtime no
// longer waits.
func NewStart(container string, since time.Time, canceled <-chan struct{}) *Start {
	return &Start{request: request[struct{}]{Question: waits.Ask[struct{}](canceled), since: since}, ID: container}
}

// request is a request whose reply can wait.
type request[R any] struct {
	waits.Question[R]
	since time.Time
	wait  waits.Wait
}

// IsLate reports whether the reply has waited as long as it may. Then the request must be
// decided.
func (r *request[R]) IsLate(now time.Time) bool { return r.wait.IsOver(now) }

// Granted returns the time for which the reply may wait.
func (r *request[R]) Granted() time.Duration { return r.wait.Until().Sub(r.since) }

// Shortened returns the end of an error text if earlier waits have shortened this one.
func (r *request[R]) Shortened() string { return r.wait.Shortened() }
