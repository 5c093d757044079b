package vm

import (
	"io"
	"sync"
)

// gate passes writes on until it is shut. The SSH library may still write when a command was given up; its caller looks at the data.
type gate struct {
	mu   sync.Mutex
	w    io.Writer
	shut bool
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return 0, io.ErrClosedPipe
	}
	if g.w == nil {
		return len(p), nil
	}
	return g.w.Write(p)
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}
