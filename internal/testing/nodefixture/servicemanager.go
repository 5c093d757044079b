package nodefixture

import (
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// ServiceManager makes the test's process a service of a service manager. It returns the
// states that the process has reported so far.
func ServiceManager(t *testing.T) (states func() []string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	var mu sync.Mutex
	var got []string
	go func() { // a full socket would block the sender
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return // the test has ended
			}
			mu.Lock()
			got = append(got, string(buf[:n]))
			mu.Unlock()
		}
	}()
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}
