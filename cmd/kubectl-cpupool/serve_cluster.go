package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/viewer"
)

// Times of the nodes of a cluster. A page asks for its node at least every 25 s.
const (
	again    = 5 * time.Second // until the next request to a daemon that has ended its answer
	idle     = 2 * time.Minute // without a page, until the requests to a daemon end
	relisted = time.Minute     // between two lists of the daemons
)

// clusterNodes are the nodes of a cluster that have a daemon. Requests go to a daemon only
// while a page shows its node.
type clusterNodes struct {
	find func(context.Context) (*daemons, error)
	ask  func(ctx context.Context, node string, feed *viewer.Feed) error
	only []string        // names of the nodes to show; empty for all
	ctx  context.Context //nolint:containedctx // of the program, for later requests

	daemons atomic.Pointer[daemons]

	mu    sync.Mutex
	asked map[string]*asked
}

type asked struct {
	feed *viewer.Feed
	last time.Time // when a page asked for the node
	stop context.CancelFunc
}

// clusterNodes finds the daemons of the cluster, and looks for others until ctx ends.
func (o *serveOptions) clusterNodes(ctx context.Context) (*clusterNodes, error) {
	n := &clusterNodes{only: o.nodes, ctx: ctx, asked: make(map[string]*asked), find: func(ctx context.Context) (*daemons, error) {
		return o.daemons(ctx, o.daemonFlags)
	}}
	n.ask = func(ctx context.Context, node string, feed *viewer.Feed) error {
		return n.daemons.Load().follow(ctx, node, feed)
	}
	found, err := n.find(ctx)
	if err != nil {
		return nil, err
	}
	n.daemons.Store(found)
	switch names := n.names(); {
	case len(names) == 0 && len(n.only) > 0:
		return nil, found.missing(n.only[0])
	case len(names) == 0:
		return nil, fmt.Errorf("no daemon's pod runs (%s in namespace %s); see --daemon-namespace and --daemon-selector", o.selector, o.namespace)
	}
	go n.maintain()
	return n, nil
}

// names returns the nodes to show, sorted.
func (n *clusterNodes) names() []string {
	all := slices.Sorted(maps.Keys(n.daemons.Load().byNode))
	if len(n.only) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(n.only, name) })
}

// List implements viewer.Nodes.
func (n *clusterNodes) List() []viewer.Listed {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []viewer.Listed
	for _, name := range n.names() {
		if a := n.asked[name]; a != nil {
			all = append(all, viewer.ListedAs(name, a.feed))
		} else {
			all = append(all, viewer.Listed{Name: name})
		}
	}
	return all
}

// Feed implements viewer.Nodes. It starts to ask the daemon of the node.
func (n *clusterNodes) Feed(name string) *viewer.Feed {
	n.mu.Lock()
	defer n.mu.Unlock()
	names := n.names()
	if name == "" && len(names) > 0 {
		name = names[0]
	}
	a := n.asked[name]
	if a == nil {
		if !slices.Contains(names, name) {
			return nil
		}
		ctx, stop := context.WithCancel(n.ctx)
		a = &asked{feed: viewer.NewFeed(), stop: stop}
		n.asked[name] = a
		go n.follow(ctx, name, a.feed)
	}
	a.last = time.Now()
	return a.feed
}

// follow asks the daemon of a node, and the daemon that replaces it, until ctx ends.
func (n *clusterNodes) follow(ctx context.Context, name string, feed *viewer.Feed) {
	for {
		feed.End(fmt.Errorf("%w; asked again every %v", n.ask(ctx, name, feed), again))
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
		n.relist(ctx)
	}
}

// explain implements viewer.Explainer. The pod of the daemon can be another one by now.
func (n *clusterNodes) explain(ctx context.Context, node string, c *inspect.Container) (*inspect.Explanation, error) {
	found, err := n.find(ctx)
	if err != nil {
		return nil, err
	}
	return found.explain(ctx, node, viewer.Name(c))
}

// relist finds the daemons again. After an error the earlier list stays.
func (n *clusterNodes) relist(ctx context.Context) {
	if found, err := n.find(ctx); err == nil {
		n.daemons.Store(found)
	}
}

// maintain finds new daemons, and stops to ask the daemons that no page shows.
func (n *clusterNodes) maintain() {
	ticker := time.NewTicker(relisted)
	defer ticker.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-ticker.C:
		}
		n.relist(n.ctx)
		n.mu.Lock()
		for name, a := range n.asked {
			if time.Since(a.last) > idle {
				a.stop()
				delete(n.asked, name)
			}
		}
		n.mu.Unlock()
	}
}
