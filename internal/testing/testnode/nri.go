package testnode

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	validator "github.com/containerd/nri/plugins/default-validator/builtin"
	"github.com/containerd/ttrpc"
	"github.com/sirupsen/logrus"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// hooks ask NRI plugins, by the library that the runtimes use and with the care
// that containerd takes around it (internal/nri/nri.go). A nil *hooks is a runtime
// with NRI switched off.
type hooks struct {
	r      *Runtime
	socket string

	// asking is held while plugins are asked and while the updates that they answer
	// are made: one at a time on the whole node. It guards told.
	asking sync.Mutex
	told   map[string]stage // what plugins know of a pod or container, by its id

	turning sync.Mutex             // held by up and down, one of which would undo half of the other
	mu      sync.Mutex             // guards what follows
	serving bool                   // plugins may connect
	nri     *adaptation.Adaptation // nil while it is down
	clients []*ttrpc.Client
}

// stage is how far an object has come for plugins.
type stage int

const (
	gone stage = iota // removed, or never told of
	made
	stopped
)

// NRISocket returns the path of the NRI socket.
func (r *Runtime) NRISocket() string { return filepath.Join(filepath.Dir(r.socket), "nri.sock") }

// NRIUp serves NRI again after NRIDown. It does nothing where it is served, or
// the runtime has none.
func (r *Runtime) NRIUp() error {
	if r.nri == nil {
		return nil
	}
	return r.nri.up()
}

// NRIDown closes the NRI socket and breaks all connections to it. Requests under
// way go on without the plugins.
func (r *Runtime) NRIDown() {
	if r.nri != nil {
		r.nri.down()
	}
}

func newHooks(r *Runtime) *hooks {
	logrus.SetLevel(logrus.PanicLevel) // the library's log is of no use to a test
	return &hooks{r: r, socket: r.NRISocket(), told: make(map[string]stage)}
}

func (h *hooks) up() error {
	h.turning.Lock()
	defer h.turning.Unlock()
	h.mu.Lock()
	up := h.serving
	h.serving = true
	h.mu.Unlock()
	if up {
		return nil
	}
	none := filepath.Join(filepath.Dir(h.socket), "none")
	name, version := h.r.config.version()
	validator := &validator.DefaultValidatorConfig{Enable: len(h.r.config.NRIRequired) > 0, RequiredPlugins: h.r.config.NRIRequired}
	a, err := adaptation.New(name, version, h.synchronize, h.unsolicited,
		adaptation.WithSocketPath(h.socket),
		adaptation.WithPluginPath(none),
		adaptation.WithPluginConfigPath(none),
		adaptation.WithDefaultValidator(validator),
		adaptation.WithTTRPCOptions([]ttrpc.ClientOpts{h.keep}, nil))
	if err == nil {
		err = a.Start() // calls synchronize: mu must be free, and nobody ask yet
	}
	if err != nil {
		return fmt.Errorf("start NRI: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nri = a
	return nil
}

func (h *hooks) down() {
	h.turning.Lock()
	defer h.turning.Unlock()
	h.mu.Lock()
	a := h.nri
	h.nri, h.serving = nil, false
	h.mu.Unlock()
	if a == nil {
		return
	}
	h.hangUp() // Stop waits for the request under way
	a.Stop()
	h.hangUp() // who has come in between
}

// keep keeps the connection to a plugin: the library would not let go of it.
func (h *hooks) keep(c *ttrpc.Client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.serving {
		c.Close()
		return
	}
	h.clients = append(h.clients, c)
}

func (h *hooks) hangUp() {
	h.mu.Lock()
	clients := h.clients
	h.clients = nil
	h.mu.Unlock()
	for _, c := range clients {
		c.Close()
	}
}

// forget is a restart of the runtime: it knows no more what it has told.
func (h *hooks) forget() {
	h.asking.Lock()
	defer h.asking.Unlock()
	clear(h.told)
}

// begin keeps new plugins from being synchronized until the function that it
// returns is called: they are told of the pod or container when it is there.
func (h *hooks) begin() (end func()) {
	if h == nil {
		return func() {}
	}
	h.mu.Lock()
	a := h.nri
	h.mu.Unlock()
	if a == nil {
		return func() {}
	}
	return a.BlockPluginSync().Unblock
}

// ask calls f with the library while nobody else asks, unless NRI is down.
func (h *hooks) ask(f func(*adaptation.Adaptation) error) error {
	if h == nil {
		return nil
	}
	h.asking.Lock()
	defer h.asking.Unlock()
	h.mu.Lock()
	a := h.nri
	h.mu.Unlock()
	if a == nil {
		return nil
	}
	return f(a)
}

// synchronize tells a new plugin what there is: pods, and containers that have
// not ended.
func (h *hooks) synchronize(ctx context.Context, tell adaptation.SyncCB) error {
	h.asking.Lock()
	defer h.asking.Unlock()
	h.r.mu.Lock()
	var pods []*api.PodSandbox
	for _, p := range h.r.pods {
		pods = append(pods, p.toNRI())
	}
	var containers []*api.Container
	for id, c := range h.r.containers {
		if c.state == cri.Created || c.state == cri.Running {
			containers = append(containers, c.toNRI())
			h.told[id] = made
		}
	}
	h.r.mu.Unlock()
	updates, err := tell(ctx, pods, containers)
	if err != nil {
		return err
	}
	_ = h.apply(updates) // containerd logs it
	return nil
}

// unsolicited makes updates that a plugin asks for by itself.
func (h *hooks) unsolicited(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	h.asking.Lock()
	defer h.asking.Unlock()
	return nil, h.apply(updates)
}

// apply makes the updates that a plugin wants, without asking plugins about them.
func (h *hooks) apply(updates []*api.ContainerUpdate) error {
	var errs []error
	for _, u := range updates {
		if u.GetLinux().GetResources() == nil {
			continue
		}
		if err := h.r.updateFromPlugin(u.GetContainerId(), criOfNRI(u.GetLinux().GetResources())); err != nil && !u.GetIgnoreFailure() {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
