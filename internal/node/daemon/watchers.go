package daemon

import (
	"context"
	"os"
	"sync"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/permission"
	"github.com/cpupoold/cpupoold/internal/node/threads"
	"github.com/cpupoold/cpupoold/internal/node/treewatch"
	"github.com/cpupoold/cpupoold/internal/node/units"
	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// watchers watches runtime, systemd, kernel, namespaces and configuration. Its methods run in
// goroutines of their own. They post events, and use no state of the event loop.
type watchers struct {
	host    *hostenv.Host
	options Options
	hooks   hooks
	usable  *usablecpus.Reader
	tree    *treewatch.Tree
	loading sync.Mutex    // held from reading the configuration to its event
	nriOpen chan struct{} // nri waits until it is closed
	openNRI func()        // closes it
}

func newWatchers(l *Loop, o Options, usable *usablecpus.Reader) *watchers {
	open := make(chan struct{})
	return &watchers{host: &l.Host, options: o, hooks: hooks{l.box.Post, l.now}, usable: usable, tree: l.notices.Tree, nriOpen: open, openNRI: sync.OnceFunc(func() { close(open) })}
}

// run watches until ctx ends.
func (w *watchers) run(ctx context.Context, u *units.Units, p *permission.Permission, scanThreads func(context.Context, func(threads.Found))) {
	var all sync.WaitGroup
	all.Go(func() { w.runtime(ctx) })
	all.Go(func() { w.config(ctx) })
	all.Go(func() { w.hangup(ctx, w.options.Hangup) })
	all.Go(func() { w.units(ctx, u) })
	all.Go(func() { w.nri(ctx) })
	all.Go(func() { w.cgroups(ctx) })
	all.Go(func() { scanThreads(ctx, func(f threads.Found) { w.hooks.post(threadsScanned{f}) }) })
	all.Go(func() { w.cpus(ctx) })
	all.Go(func() { p.Run(ctx, func(a nodestatus.Allowed) { w.hooks.post(permissionsChanged{a}) }) })
	all.Wait()
}

func (w *watchers) runtime(ctx context.Context) {
	if w.host.Runtime == nil {
		return
	}
	_ = w.host.Runtime.Watch(ctx, cri.Handler{ // ends only with ctx
		Event:  func(e cri.Event) { w.hooks.post(runtimeEvent{e}) },
		Stream: func(s cri.StreamState, err error) { w.hooks.post(streamChanged{s, err}) },
	})
}

// config reads the configuration again when it may have changed.
func (w *watchers) config(ctx context.Context) {
	if w.options.ConfigFile == "" {
		return
	}
	actor.KeepTrying(ctx, func() error { return config.Watch(ctx, w.options.ConfigFile, w.reload) }, func(err error) {
		w.options.Log.Error("watch configuration", "error", err)
	})
}

// hangup reads the configuration again after SIGHUP.
func (w *watchers) hangup(ctx context.Context, hangup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			w.reload()
		}
	}
}

// reload reads the configuration and posts it. Several goroutines call it, and the lock keeps
// the order of readings and events equal.
func (w *watchers) reload() {
	w.loading.Lock()
	defer w.loading.Unlock()
	c, err := w.options.Reload()
	w.hooks.post(configLoaded{c, err})
}

// units reports the starts, stops and reloads of units.
func (w *watchers) units(ctx context.Context, u *units.Units) {
	if w.host.Units == nil {
		return
	}
	var watches sync.WaitGroup
	defer watches.Wait()
	watches.Go(func() {
		u.Watch(ctx, func(name string) { w.hooks.post(unitWoken{name}) }, func(err error) { w.hooks.post(unitsLost{err}) })
	})
	wake := func() { w.hooks.post(systemdReloaded{}) }
	actor.KeepTrying(ctx, func() error { return w.host.Units.WatchReload(ctx, wake) }, func(err error) { w.hooks.post(reloadsLost{err}) })
}

// nri keeps the connection to the runtime's NRI. It connects after openNRI: at once if replies
// before the first pass are safe (see nri.go), else after the first pass. Until then, runtime
// events lead to the same decisions, but later.
func (w *watchers) nri(ctx context.Context) {
	if w.host.NRISocket == "" {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-w.nriOpen:
	}
	_ = nri.Run(ctx, nri.Options{ // ends only with ctx
		Socket:  w.host.NRISocket,
		Keep:    w.host.Annotations.Reads,
		Handler: w.hooks,
		Runtime: w.host.Runtime,
		State:   func(s nri.State, err error) { w.hooks.post(nriChanged{s, err}) },
	})
}

// cgroups runs a watcher of the cgroup tree.
func (w *watchers) cgroups(ctx context.Context) {
	w.tree.Run(ctx, w.host.Cgroups, w.hooks.now, func(watcher *cgroup.Watcher, err error) { w.hooks.post(treeWatched{watcher, err}) })
}

// cpus reports CPUs that go online or offline, and CPUs that the root cgroup lacks. It reads the
// topology in its own goroutine, because a runtime without an answer can delay the queue of the
// workers. Containers could then run on CPUs of other owners.
func (w *watchers) cpus(ctx context.Context) {
	if w.host.CPUs == nil {
		return
	}
	actor.KeepTrying(ctx, func() error {
		err := w.usable.Watch(ctx, func() { w.hooks.post(cpuWatchChanged{}) }, w.useCPUs)
		if ctx.Err() == nil {
			w.hooks.post(cpuWatchChanged{err})
		}
		return err
	}, w.usable.LogLost)
}

// useCPUs posts a change of the usable CPUs.
func (w *watchers) useCPUs(m usablecpus.Machine) { w.hooks.post(cpusChanged{m}) }
