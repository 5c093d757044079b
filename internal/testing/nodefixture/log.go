package nodefixture

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"sync"
)

// LogBuffer is a bytes.Buffer for several goroutines.
type LogBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (b *LogBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// Bytes returns a copy of the log.
func (b *LogBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.b.Bytes())
}

// Reset empties the log.
func (b *LogBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b = bytes.Buffer{}
}

// String returns the log.
func (b *LogBuffer) String() string { return string(b.Bytes()) }

// Logger returns a logger that writes to Logs.
func (n *Node) Logger() *slog.Logger { return slog.New(slog.NewJSONHandler(n.Logs, nil)) }

// Logged returns the log records with the given message.
func (n *Node) Logged(msg string) []map[string]any {
	var out []map[string]any
	for line := range bytes.Lines(n.Logs.Bytes()) {
		var r map[string]any
		if json.Unmarshal(line, &r) == nil && r["msg"] == msg {
			out = append(out, r)
		}
	}
	return out
}
