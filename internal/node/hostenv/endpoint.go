package hostenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/hostkubelet"
)

// # Which runtime
//
// The kubelet's runtime has the pods. Its endpoint is in the kubelet's flags or files. The daemon
// usually starts before the kubelet, and then takes the runtime that answers. On a machine with
// Docker this can be Docker's containerd. So the daemon looks again while the kubelet is not known
// and the runtime has no pods. If the runtime is another one, the daemon ends, and its service
// manager starts it again: so nothing of the first runtime remains in its state.

const lookAgain = 5 * time.Second

type finder struct {
	// kubelet returns the running kubelet's endpoint, or "". dir is the kubelet's directory.
	kubelet func(dir string) (string, error)
	// answering returns the endpoint of the runtime that answers below root.
	answering func(ctx context.Context, root string) (string, error)
}

// kubeletEndpoint is the function kubelet of this machine.
func kubeletEndpoint(dir string) (string, error) {
	return hostkubelet.Find(os.DirFS("/")).Endpoint(dir)
}

// findEndpoint returns guessed if neither the configuration nor the kubelet names it.
func findEndpoint(ctx context.Context, c *config.Config, f finder) (endpoint string, guessed bool, err error) {
	if c.RuntimeEndpoint != "" {
		return c.RuntimeEndpoint, false, nil
	}
	endpoint, unknown := f.kubelet(c.KubeletStateDir)
	if endpoint != "" {
		return endpoint, false, nil
	}
	if endpoint, err = f.answering(ctx, "/"); err != nil {
		return "", false, errors.Join(err, unknown)
	}
	return endpoint, true, nil
}

// confirm fails if the kubelet uses another runtime. It ends when the guess is certain.
func confirm(ctx context.Context, c *config.Config, guessed string, f finder, hasPods func(context.Context) bool) error {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		endpoint, err := f.kubelet(c.KubeletStateDir)
		by := "the kubelet uses"
		if endpoint == "" || err != nil {
			if hasPods(ctx) {
				return nil
			}
			if endpoint, err = f.answering(ctx, "/"); err != nil {
				continue
			}
			by = "pods run in"
		} else if isSameSocket(endpoint, guessed) {
			return nil
		}
		if !isSameSocket(endpoint, guessed) {
			return fmt.Errorf("%s the container runtime at %s, and the daemon has found the one at %s before: it starts again", by, endpoint, guessed)
		}
	}
}

// isSameSocket reports whether two endpoints are the same file.
func isSameSocket(a, b string) bool {
	if a == b {
		return true
	}
	x, err := os.Stat(strings.TrimPrefix(a, "unix://"))
	if err != nil {
		return false
	}
	y, err := os.Stat(strings.TrimPrefix(b, "unix://"))
	return err == nil && os.SameFile(x, y)
}

// Serve calls run with a context that ends with ctx. It also ends, and Serve returns the reason,
// when the runtime is not the one of the kubelet.
func (h *Host) Serve(ctx context.Context, run func(context.Context) error) error {
	if h.confirm == nil {
		return run(ctx)
	}
	within, stop := context.WithCancelCause(ctx)
	var looks sync.WaitGroup
	looks.Go(func() {
		if err := h.confirm(within); err != nil {
			stop(err)
		}
	})
	err := run(within)
	if err == nil && ctx.Err() == nil {
		err = context.Cause(within)
	}
	stop(nil)
	looks.Wait()
	return err
}
