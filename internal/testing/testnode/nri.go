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

// hooks sends requests to NRI plugins with the library of the runtimes, and with the same locking
// as containerd (internal/nri/nri.go). A nil *hooks is a runtime without NRI.
type hooks struct {
	r      *Runtime
	socket string

	// asking is held during a request and during the updates in its reply: one at a time on the
	// node. It guards stages.
	asking sync.Mutex
	stages map[string]stage // stage of a pod or container for plugins, by its ID

	switching sync.Mutex             // held by up and down, so that they do not overlap
	mu        sync.Mutex             // guards the fields below
	serving   bool                   // plugins may connect
	nri       *adaptation.Adaptation // nil while NRI is down
	clients   []*ttrpc.Client
}

// stage is the last event about an object that plugins received.
type stage int

const (
	removed stage = iota // removed, or never reported
	made
	stopped
)

// NRISocket returns the path of the NRI socket.
func (r *Runtime) NRISocket() string { return filepath.Join(filepath.Dir(r.socket), "nri.sock") }

// NRIUp serves NRI again after NRIDown. It has no effect if NRI is up, or disabled.
func (r *Runtime) NRIUp() error {
	if r.nri == nil {
		return nil
	}
	return r.nri.up()
}

// NRIDown closes the NRI socket and all its connections. Requests in progress continue without
// the plugins.
func (r *Runtime) NRIDown() {
	if r.nri != nil {
		r.nri.down()
	}
}

func newHooks(r *Runtime) *hooks {
	logrus.SetLevel(logrus.PanicLevel) // tests do not need the library's log
	if limit := r.config.NRITimeout; limit > 0 {
		adaptation.SetPluginRequestTimeout(limit)
	}
	return &hooks{r: r, socket: r.NRISocket(), stages: make(map[string]stage)}
}

func (h *hooks) up() error {
	h.switching.Lock()
	defer h.switching.Unlock()
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
		adaptation.WithTTRPCOptions([]ttrpc.ClientOpts{h.keepClient}, nil))
	if err == nil {
		err = a.Start() // calls synchronize: mu must be free, and h.nri nil
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
	h.switching.Lock()
	defer h.switching.Unlock()
	h.mu.Lock()
	a := h.nri
	h.nri, h.serving = nil, false
	h.mu.Unlock()
	if a == nil {
		return
	}
	h.closeClients() // Stop waits for the request in progress
	a.Stop()
	h.closeClients() // connections since the first call
}

// keepClient records the connection to a plugin, because the library never closes it.
func (h *hooks) keepClient(c *ttrpc.Client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.serving {
		c.Close()
		return
	}
	h.clients = append(h.clients, c)
}

func (h *hooks) closeClients() {
	h.mu.Lock()
	clients := h.clients
	h.clients = nil
	h.mu.Unlock()
	for _, c := range clients {
		c.Close()
	}
}

// dropStages imitates a restart of the runtime: it drops the stages of all objects.
func (h *hooks) dropStages() {
	h.asking.Lock()
	defer h.asking.Unlock()
	clear(h.stages)
}

// blockSync delays the synchronization of new plugins until end is called. Then their first list
// contains the new pod or container.
func (h *hooks) blockSync() (end func()) {
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

// ask calls f with the library, one call at a time. It does nothing while NRI is down.
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

// synchronize sends the pods and the containers that have not exited to a new plugin.
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
			h.stages[id] = made
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

// unsolicited applies the updates that a plugin sends without a request.
func (h *hooks) unsolicited(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	h.asking.Lock()
	defer h.asking.Unlock()
	return nil, h.apply(updates)
}

// apply applies the updates of a plugin, without a request to plugins about them.
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
