package hostenv

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/cpupoold/cpupoold/pkg/podresources"
)

// Devices is what the daemon needs of the kubelet; nil when it is not asked.
type Devices interface {
	List(ctx context.Context) ([]podresources.Container, error)
}

// ErrNoKubelet means that there is no socket. Where there has never been one, only
// those wait that may not have CPUs without a hint.
var ErrNoKubelet = errors.New("no kubelet serves PodResources here")

// kubelet is the real source.
type kubelet struct {
	*podresources.Client
	socket string
}

func (k kubelet) List(ctx context.Context) ([]podresources.Container, error) {
	if _, err := os.Stat(k.socket); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoKubelet
	}
	return k.Client.List(ctx)
}
