package testnode

import (
	"context"
	"path"
	"sync"

	"google.golang.org/grpc"
)

// OCIUpdate is a name for Fail: the part of the OCI runtime in an update of a running container.
// The plugins have accepted the update by then.
const OCIUpdate = "OCIUpdate"

// Fail makes each call of a CRI method, such as "ListContainers", return err. With nil, it works
// again.
func (r *Runtime) Fail(method string, err error) {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	r.faults.errs[method] = err
}

// Hang makes each call of a CRI method wait until release is called or the caller cancels it.
func (r *Runtime) Hang(method string) (release func()) {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	gate := make(chan struct{})
	r.faults.gates[method] = gate
	return sync.OnceFunc(func() {
		r.faults.mu.Lock()
		defer r.faults.mu.Unlock()
		close(gate)
		if r.faults.gates[method] == gate {
			delete(r.faults.gates, method)
		}
	})
}

// errorOf returns the error that Fail has set.
func (f *faults) errorOf(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.errs[what]
}

// Calls returns the number of calls of a CRI method.
func (r *Runtime) Calls(method string) int {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	return r.faults.calls[method]
}

// faults intercepts each call of the service.
type faults struct {
	mu    sync.Mutex // guards the fields below
	errs  map[string]error
	gates map[string]chan struct{}
	calls map[string]int
}

func newFaults() *faults {
	return &faults{
		errs:  make(map[string]error),
		gates: make(map[string]chan struct{}),
		calls: make(map[string]int),
	}
}

func (f *faults) intercept(ctx context.Context, fullMethod string) error {
	method := path.Base(fullMethod)
	f.mu.Lock()
	f.calls[method]++
	gate := f.gates[method]
	f.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.errs[method]
}

func (f *faults) unary(ctx context.Context, req any, i *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := f.intercept(ctx, i.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (f *faults) stream(srv any, ss grpc.ServerStream, i *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := f.intercept(ss.Context(), i.FullMethod); err != nil {
		return err
	}
	return next(srv, ss)
}
