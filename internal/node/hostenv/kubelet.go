package hostenv

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/podresources"
)

// devices lists devices and memory of containers with their NUMA nodes.
type devices interface {
	List(ctx context.Context) ([]podresources.Container, error)
}

// # CPUs of a static kubelet
//
// With guaranteed.exclusive: kubelet the kubelet allocates exclusive CPUs. The daemon reads
// the kubelet's state file after each event that can come with another allocation, because
// the kubelet writes the file before it calls the runtime. If the file is damaged,
// PodResources reports the exclusive CPUs; without that answer the last known allocation
// stays in force. A missing file is ignored: the kubelet is being given another policy, or
// its directory is not mounted.

const cpuManagerFile = "cpu_manager_state"

// cpuManagerLimit is far above the size of any such file, in bytes.
const cpuManagerLimit = 16 << 20

type cpuManager interface {
	State(context.Context) (podresources.CPUState, error)
}

// stateTimeout limits a read, for which the first pass waits: a disk may hang.
const stateTimeout = 5 * time.Second

// stateFile is the kubelet's state file. One goroutine at a time may read it.
type stateFile struct {
	name    string
	read    func(name string, limit int64) ([]byte, error)
	pending chan stateRead // a read that an earlier call gave up; only the disk can end it
}

type stateRead struct {
	content []byte
	err     error
}

// State returns the content of the file. It waits for the end of a pending read first, because the result of that
// read may be old. It gives up after stateTimeout.
func (f *stateFile) State(ctx context.Context) (podresources.CPUState, error) {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	for isNew := f.pending == nil; ; isNew = true {
		if f.pending == nil {
			f.pending = make(chan stateRead, 1)
			go func(to chan<- stateRead) {
				b, err := f.read(f.name, cpuManagerLimit)
				to <- stateRead{b, err}
			}(f.pending)
		}
		select {
		case r := <-f.pending:
			if f.pending = nil; !isNew {
				continue
			}
			if r.err != nil {
				return podresources.CPUState{}, r.err
			}
			return podresources.ParseCPUState(r.content)
		case <-ctx.Done():
			return podresources.CPUState{}, fmt.Errorf("read %s: its disk does not answer: %w", f.name, ctx.Err())
		}
	}
}

// readFile reads at most limit bytes of another program's file, which may be a link.
func readFile(name string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(name, unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened to read
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return b, err
}
