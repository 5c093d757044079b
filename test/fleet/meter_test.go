//go:build fleet

package fleet_test

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// meter forwards a node's connections to the API server, and counts their bytes. The
// bytes of TLS count, the headers of TCP and IP do not.
type meter struct {
	listener       net.Listener
	server         string
	sent, received atomic.Int64 // by the node

	mu    sync.Mutex
	dials []time.Time // of connections, also of those that do not get through
	open  int
}

func newMeter(t *testing.T, server string) *meter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &meter{listener: l, server: server}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			go m.serve(c)
		}
	}()
	return m
}

func (m *meter) serve(node net.Conn) {
	defer node.Close()
	m.mu.Lock()
	m.dials = append(m.dials, time.Now())
	m.mu.Unlock()
	server, err := net.Dial("tcp", m.server)
	if err != nil {
		return // as if no server listened
	}
	defer server.Close()
	m.count(1)
	defer m.count(-1)
	done := make(chan struct{}, 2)
	pass := func(to io.Writer, from io.Reader, bytes *atomic.Int64) {
		_, _ = io.Copy(to, io.TeeReader(from, counter{bytes})) // the other side notices
		done <- struct{}{}
	}
	go pass(server, node, &m.sent)
	go pass(node, server, &m.received)
	<-done
}

func (m *meter) count(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open += n
}

// connections returns the number of open connections, and the times at which clients
// opened one.
func (m *meter) connections() (open int, dials []time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open, slices.Clone(m.dials)
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// request is one that the API server has noted.
type request struct {
	node string // the uid of the token
	what string // verb and resource
	code int
	at   time.Time
}

// requests are all of the API server's log. A watch is noted when it has begun.
func (s *apiServer) requests(t *testing.T) []request {
	t.Helper()
	f, err := os.Open(s.audit)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []request
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Stage, Verb string
			User        struct{ UID string }
			ObjectRef   struct{ Resource, Subresource string }
			Status      struct{ Code int } `json:"responseStatus"`
			At          time.Time          `json:"requestReceivedTimestamp"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // the last line, half written when the server was killed
		}
		if e.Verb == "watch" && e.Stage == "ResponseComplete" && e.Status.Code == 200 {
			continue // its end
		}
		what := e.Verb + " " + strings.TrimSuffix(e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/")
		all = append(all, request{e.User.UID, what, e.Status.Code, e.At})
	}
	return all
}

// mark holds the counters at one moment.
type mark struct {
	at             time.Time
	requests       int
	sent, received int64
	dials          int
}

// phase holds the nodes' requests between two marks.
type phase struct {
	name           string
	lasted         time.Duration
	requests       map[string]int // by purpose, all nodes together
	refused        map[int]int    // by code
	most           int            // requests of one node
	sent, received int64
	dials, open    int
	peak, dialPeak int // requests, and dials, in one second
	last           time.Duration
}

func (f *fleet) mark(t *testing.T) mark {
	t.Helper()
	m := mark{at: time.Now(), requests: len(f.server.requests(t))}
	for _, n := range f.nodes {
		m.sent += n.meter.sent.Load()
		m.received += n.meter.received.Load()
		_, dials := n.meter.connections()
		m.dials += len(dials)
	}
	return m
}

// since returns the requests since a mark.
func (f *fleet) since(t *testing.T, name string, from mark) phase {
	t.Helper()
	to := f.mark(t)
	p := phase{
		name: name, lasted: to.at.Sub(from.at), requests: map[string]int{}, refused: map[int]int{},
		sent: to.sent - from.sent, received: to.received - from.received, dials: to.dials - from.dials,
	}
	nodes, times := map[string]int{}, []time.Time{}
	for _, r := range f.server.requests(t)[from.requests:] {
		p.requests[r.what]++
		nodes[r.node]++
		times = append(times, r.at)
		if r.code/100 != 2 {
			p.refused[r.code]++
		}
	}
	if len(nodes) > 0 {
		p.most = slices.Max(slices.Collect(maps.Values(nodes)))
	}
	var dials []time.Time
	for _, n := range f.nodes {
		open, all := n.meter.connections()
		p.open += open
		for _, at := range all {
			if at.After(from.at) {
				dials = append(dials, at)
			}
		}
	}
	p.peak, p.dialPeak = peak(times), peak(dials)
	if len(times) > 0 {
		p.last = slices.MaxFunc(times, time.Time.Compare).Sub(from.at)
	}
	t.Log(p)
	return p
}

// peak returns the number of events in the second with the most.
func peak(times []time.Time) int {
	slices.SortFunc(times, time.Time.Compare)
	most, end := 0, 0
	for i, first := range times {
		for end < len(times) && times[end].Sub(first) < time.Second {
			end++
		}
		most = max(most, end-i)
	}
	return most
}
