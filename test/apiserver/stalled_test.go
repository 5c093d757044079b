//go:build apiserver

package apiserver_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// maxMemory is the maximum resident memory of the webhook in bytes.
	maxMemory = 128 << 20
	// stallRounds is the number of steps in which a test opens its connections.
	stallRounds = 10
)

// TestStalledConnections checks that the installed webhook answers the API server while TLS connections stall, and that its memory stays bounded. The
// connections stall in each part of a request, and their requests are as long as the largest review.
func TestStalledConnections(t *testing.T) {
	s, r := startWebhook(t)
	nodeWith(t, s, "n1", cores, shared, guaranteed)
	latched(t, s)
	beforeTimeout(t, s)
	before := r.peak(t)
	for _, connections := range []int{60, 1000} {
		t.Run(fmt.Sprint(connections), func(t *testing.T) {
			var open stalled
			defer open.close()
			var longest time.Duration
			for round := range stallRounds {
				open.add(t, r.address, connections/stallRounds)
				began := time.Now()
				becomes(t, s, "infra", newPod(fmt.Sprint("m", connections, "-", round), management(), "cpu=400m memory=1Gi"), cores+"=400")
				becomes(t, s, "apps", newPod(fmt.Sprint("s", connections, "-", round), nil, "cpu=500m"), "cpu=500m "+shared+"=500")
				longest = max(longest, time.Since(began))
				for _, path := range []string{"/healthz", "/readyz"} {
					r.probe(t, path)
				}
			}
			if n := open.count(); n < connections/2 {
				t.Errorf("%d connections have stalled; want at least %d of %d", n, connections/2, connections)
			}
			peak := r.peak(t)
			t.Logf("%d MiB at most, %d MiB before; two pods in %v at most", peak>>20, before>>20, longest.Round(time.Millisecond))
			if peak > maxMemory {
				t.Errorf("the webhook took %d MiB; want at most %d", peak>>20, maxMemory>>20)
			}
		})
	}
}

// stalled are connections that begin a request and do not complete it.
type stalled struct {
	mu    sync.Mutex // guards the rest
	all   []net.Conn
	begun int // connections that have sent their part
}

// add opens connections, and returns when each has sent its part or is closed.
func (s *stalled) add(t *testing.T, address string, count int) {
	t.Helper()
	const openers = 10
	var wait sync.WaitGroup
	for opener := range openers {
		wait.Go(func() {
			for i := opener; i < count; i += openers {
				c, err := net.DialTimeout("tcp", address, waitTimeout)
				if err != nil {
					t.Errorf("connect to the webhook: %v", err)
					return
				}
				sent := begin(c, i)
				s.mu.Lock()
				s.all = append(s.all, c)
				if sent == nil {
					s.begun++
				}
				s.mu.Unlock()
			}
		})
	}
	wait.Wait()
}

func (s *stalled) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

func (s *stalled) close() {
	for _, c := range s.all {
		_ = c.Close() // the webhook may have closed it
	}
}

// begin sends the beginning of a review with the maximum size. It returns an error if the webhook closes the connection before.
func begin(c net.Conn, kind int) error {
	const size = 7 << 20
	secure := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	header := fmt.Sprintf("POST /mutate-pods HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", size)
	var err error
	switch kind % 5 {
	case 0: // nothing
	case 1: // the beginning of a handshake
		_, err = c.Write([]byte{22, 3, 1, 2, 0, 1, 0})
	case 2: // a part of the header
		_, err = io.WriteString(secure, header)
	case 3: // the beginning of the body
		_, err = io.WriteString(secure, header+"\r\n{")
	default: // the body without its last byte
		_, err = secure.Write(append([]byte(header+"\r\n"), bytes.Repeat([]byte(" "), size-1)...))
	}
	return err
}

// probe asks as the kubelet does, once.
func (r *replica) probe(t *testing.T, path string) {
	t.Helper()
	c := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := c.Get("http://" + r.probes + path)
	if err != nil {
		t.Errorf("probe %s: %v", path, err)
		return
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("probe %s: %s; want 200", path, response.Status)
	}
}

// peak returns the maximum resident memory of the webhook in bytes.
func (r *replica) peak(t *testing.T) (bytes int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nVmHWM:")
	if _, err := fmt.Sscan(rest, &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes << 10
}
