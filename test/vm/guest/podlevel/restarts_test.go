//go:build guest

package podlevel_test

import (
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// gates hold the kubelet back between two containers of a pod. The kubelet creates the next container after the reply to the postStart hook of the
// container before. The hook is an HTTP request to the test.
type gates struct {
	port  int
	close func()

	mu   sync.Mutex
	open map[string]chan struct{}
}

func newGates(t *testing.T) *gates {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gates{port: listener.Addr().(*net.TCPAddr).Port, open: make(map[string]chan struct{})}
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-g.gate(r.URL.Path):
		case <-r.Context().Done():
		}
	})}
	go func() { _ = server.Serve(listener) }()
	g.close = func() { _ = server.Close() }
	return g
}

func (g *gates) gate(path string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[path] == nil {
		g.open[path] = make(chan struct{})
	}
	return g.open[path]
}

// after returns the container with a gate behind it.
func (g *gates) after(c manifest.Container) manifest.Container {
	c.More = map[string]any{"lifecycle": map[string]any{"postStart": map[string]any{
		"httpGet": map[string]any{"host": "127.0.0.1", "port": g.port, "path": "/" + c.Name}}}}
	return c
}

// pass lets the kubelet go on after a container.
func (g *gates) pass(container string) { close(g.gate("/" + container)) }

// TestRestarts restarts daemon and runtime between the creations of a pod's containers. No container moves, and the plan assigns the same CPUs as
// before.
func TestRestarts(t *testing.T) {
	n := newNode(t)
	for _, tt := range []struct {
		name       string
		pod        string
		total      int
		containers []manifest.Container
		roles      []map[string]string // after each creation
	}{
		{"one container becomes two", "two", 4, []manifest.Container{bare("a"), bare("b")}, []map[string]string{
			{"a": "own 4"},
			{"a": "pool 4", "b": "pool 4"},
		}},
		{"the rest of a pod", "three", 5, []manifest.Container{whole("c", 2), bare("d"), bare("e")}, []map[string]string{
			{"c": "own 2"},
			{"c": "own 2", "d": "pool 3"},
			{"c": "own 2", "d": "pool 3", "e": "pool 3"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, g := n.in(t), newGates(t)
			p := pod(tt.pod, tt.total)
			for _, c := range tt.containers {
				p.Containers = append(p.Containers, g.after(c))
			}
			n.Apply(p)
			t.Cleanup(func() {
				g.close() // the kubelet ends no pod while a hook waits
				n.Withdraw(p.Name)
			})
			before := make(cpus)
			for i, containers := range tt.roles {
				want := of(tt.pod, containers)
				now := n.settles(strconv.Itoa(i+1)+" created", want)
				n.keeps("the creation of "+p.Containers[i].Name, before, now)
				before = now
				if i == len(p.Containers)-1 {
					break
				}
				planned := n.Plan().Plan.Assignments
				for _, unit := range []string{"cpupoold", n.Runtime.Unit} {
					n.Run("systemctl", "restart", unit)
					n.connected()
					n.keeps("restart of "+unit, now, n.settles("restart of "+unit, want))
					if diff := cmp.Diff(planned, n.Plan().Plan.Assignments, cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("restart of %s: the assignments have changed (-before +after):\n%s", unit, diff)
					}
				}
				g.pass(p.Containers[i].Name)
			}
		})
	}
}
