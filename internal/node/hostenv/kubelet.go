package hostenv

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/cpupoold/cpupoold/pkg/podresources"
)

// devices is the kubelet's list of devices and memory of each container, with their NUMA
// nodes.
type devices interface {
	List(ctx context.Context) ([]podresources.Container, error)
}

// ErrNoKubelet means that there is no PodResources socket. If there has never been one,
// only containers whose topology policy demands an answer wait for it.
var ErrNoKubelet = errors.New("no kubelet serves PodResources here")

type kubelet struct {
	*podresources.Client
	socket string
}

// List implements devices.
func (k kubelet) List(ctx context.Context) ([]podresources.Container, error) {
	if _, err := os.Stat(k.socket); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoKubelet
	}
	return k.Client.List(ctx)
}
