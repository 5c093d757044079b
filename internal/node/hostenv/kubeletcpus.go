package hostenv

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/durable"
	"github.com/cpupoold/cpupoold/pkg/podresources"
)

// # The CPUs of a static kubelet
//
// With guaranteed.exclusive: kubelet the kubelet says who has which CPUs. Its file is
// read whenever something has happened that may go with another choice: it writes the
// file before it asks the runtime for anything. Where the file cannot be understood,
// PodResources tells who has CPUs alone; where nothing can, what was last known stands.
// A file that is gone is no news: the kubelet is being given another policy, or its
// directory is not mounted.

// CpuManagerState is the kubelet's file, in its directory.
const CpuManagerState = "cpu_manager_state"

// cpuManagerLimit is far above any such file, in bytes.
const cpuManagerLimit = 16 << 20

// cpuManager tells what the kubelet has decided; nil where it decides nothing.
type cpuManager interface {
	State(context.Context) (podresources.CPUState, error)
}

// StateLimit is how long the kubelet's file may take. The first pass waits for it, and a
// disk that hangs must not keep everybody from their CPUs.
const StateLimit = 5 * time.Second

// StateFile is the real one. It is asked by one goroutine at a time.
type StateFile struct {
	Name string
	Read func(name string, limit int64) ([]byte, error)
	// under is the read that was under way when it was last given up; nothing can end it
	// but the disk.
	under chan stateRead
}

type stateRead struct {
	content []byte
	err     error
}

func (f *StateFile) State(ctx context.Context) (podresources.CPUState, error) {
	ctx, cancel := context.WithTimeout(ctx, StateLimit)
	defer cancel()
	r, err := f.content(ctx)
	if err == nil {
		err = r.err
	}
	if err != nil {
		return podresources.CPUState{}, err
	}
	return podresources.ParseCPUState(r.content)
}

// content reads the file. What an earlier question has not waited for may be old, and is
// thrown away; before it has ended no other one is begun.
func (f *StateFile) content(ctx context.Context) (stateRead, error) {
	hangs := func() (stateRead, error) {
		return stateRead{}, fmt.Errorf("read %s: its disk does not answer: %w", f.Name, ctx.Err())
	}
	if f.under != nil {
		select {
		case <-f.under:
		case <-ctx.Done():
			return hangs()
		}
	}
	f.under = make(chan stateRead, 1)
	go func(to chan<- stateRead) {
		b, err := f.Read(f.Name, cpuManagerLimit)
		to <- stateRead{b, err}
	}(f.under)
	select {
	case r := <-f.under:
		f.under = nil
		return r, nil
	case <-ctx.Done():
		return hangs()
	}
}

// managerOf is nil where cpupoold gives containers their CPUs.
func managerOf(c *config.Config) cpuManager {
	if !c.Pools.Guaranteed.Kubelet {
		return nil
	}
	return &StateFile{Name: path.Join(c.KubeletStateDir, CpuManagerState), Read: durable.Read}
}
