package inventory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// firstDetailsTimeout is the limit for the details of all objects in the first listing.
// Objects without details keep their CPUs, and the next listing asks for them again.
const firstDetailsTimeout = 15 * time.Second

// firstUnitTimeout is the limit for the answer of systemd about one unit in the first
// listing. Nothing is written without the configured units then, so that another listing
// would take longer.
const firstUnitTimeout = 5 * time.Second

// maxQuestions is the maximum number of open questions of one listing.
const maxQuestions = 8

// Query is the question that List asks.
type Query struct {
	// UnitTimeout is the limit for the answer of systemd about one unit.
	UnitTimeout time.Duration
	// InPods reports whether the answer contains the cgroups in the slices of pods.
	InPods bool

	slices      []cgroup.Path   // of the known pods
	units       []string        // names in the configuration
	listTimeout time.Duration   // for the runtime's lists without details
	details     time.Duration   // for the details of all objects
	asOf        int             // clock of the inventory
	known       map[string]bool // objects whose details the inventory has
}

// Query returns the question for the next listing. The first listing gets more time: a node
// that boots answers late.
func (m *Inventory) Query(units []string, first bool) Query {
	q := Query{slices: m.PodSlices(), units: units, UnitTimeout: unitTimeout, listTimeout: hostenv.CallTimeout, details: hostenv.UpdateTimeout, asOf: m.clock, known: m.knownIDs()}
	if first {
		q.UnitTimeout, q.listTimeout, q.details = firstUnitTimeout, hostenv.UpdateTimeout, firstDetailsTimeout
	}
	return q
}

// knownIDs returns the pods and containers whose details need no other question.
func (m *Inventory) knownIDs() map[string]bool {
	known := make(map[string]bool, len(m.pods)+len(m.containers))
	for id, e := range m.pods {
		known[id] = e.err == nil && !e.unlisted && e.presence != answered
	}
	for id, e := range m.containers {
		// The end of a container shows whether it was an init container.
		noEnd := e.Container.State == cri.Exited && e.Container.FinishedAt.IsZero()
		known[id] = e.err == nil && !noEnd && e.presence != answered
	}
	return known
}

// Listing is the answer to a Query.
type Listing struct {
	Units  []UnitStatus
	Crio   managers.CRIO
	Failed []error // objects without details
	Err    error   // the runtime did not list its objects
	InPods []cgroup.Path

	asOf       int // clock of the inventory when the listing was requested
	pods       []PodStatus
	containers []ContainerStatus
	known      lists // objects whose details were known
}

// lists holds objects as the runtime lists them, without details.
type lists struct {
	pods       []cri.Pod
	containers []cri.Container
}

// List asks the runtime for all pods and containers, and for the details that the
// inventory lacks. It asks systemd for the units of the query. An object that cannot be
// read is listed without details, and the next listing asks for it again.
func List(ctx context.Context, h *hostenv.Host, q Query) Listing {
	var crio managers.CRIO
	if h.CRIO != nil {
		// Before the objects: a new workload of CRI-O makes an annotation count that the
		// known pods lack.
		if crio = h.CRIO(); h.Annotations.Learn(crio) {
			q.known = nil
		}
	}
	// In parallel: systemd may need the whole limit for each unit.
	units := make(chan []UnitStatus, 1)
	go func() { units <- listUnits(ctx, h, q) }()
	l := listObjects(ctx, h, q)
	if l.Err == nil && h.CRIO != nil {
		h.Annotations.NoteReread() // each object without details is read again
	}
	if q.InPods {
		l.scanPods(h, q.slices)
	}
	l.asOf, l.Crio = q.asOf, crio
	l.Units = <-units
	l.Failed = l.failures()
	return l
}

// maxInPod bounds the cgroups of a pod in a Listing: a privileged pod can make any number.
const maxInPod = 1024

// scanPods lists the cgroups in the slices of pods. It leaves out slices that cannot be read.
func (l *Listing) scanPods(h *hostenv.Host, known []cgroup.Path) {
	for i := range l.pods {
		if slice, _, err := podPaths(l.pods[i].Pod, h.Driver); err == nil && slice != "" {
			known = append(known, slice)
		}
	}
	for _, slice := range known {
		if children, err := h.Cgroups.Children(slice); err == nil {
			l.InPods = append(l.InPods, children[:min(len(children), maxInPod)]...)
		}
	}
}

func listUnits(ctx context.Context, h *hostenv.Host, q Query) []UnitStatus {
	if h.Units == nil {
		return nil
	}
	all := make([]UnitStatus, len(q.units))
	forEach(len(all), func(i int) {
		ctx, cancel := context.WithTimeout(ctx, q.UnitTimeout)
		defer cancel()
		all[i] = FetchUnit(ctx, h, q.units[i])
	})
	return all
}

// forEach calls ask for each index below n, a few at a time, and waits for all of them.
func forEach(n int, ask func(int)) {
	var g errgroup.Group
	g.SetLimit(maxQuestions)
	for i := range n {
		g.Go(func() error {
			ask(i)
			return nil
		})
	}
	_ = g.Wait() // no function returns an error
}

func listObjects(ctx context.Context, h *hostenv.Host, q Query) Listing {
	if h.Runtime == nil {
		return Listing{}
	}
	// The limit is shorter than the one for the details of all objects: a runtime that hangs answers neither.
	listing, cancelListing := context.WithTimeout(ctx, q.listTimeout)
	defer cancelListing()
	pods, containers, err := h.Runtime.List(listing)
	if err != nil {
		return Listing{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, q.details)
	defer cancel()
	var l Listing
	// Most objects are known, and there are many: they stay in the runtime's lists.
	l.known.pods = slices.DeleteFunc(pods, func(p cri.Pod) bool {
		if q.known[p.ID] {
			return false
		}
		l.pods = append(l.pods, PodStatus{Pod: p})
		return true
	})
	l.known.containers = slices.DeleteFunc(containers, func(c cri.Container) bool {
		if q.known[c.ID] {
			return false
		}
		l.containers = append(l.containers, ContainerStatus{Container: c})
		return true
	})
	forEach(len(l.pods), func(i int) {
		f := fetchPod(ctx, h, l.pods[i].ID, hostenv.CallTimeout)
		if f.Err != nil {
			f = PodStatus{Pod: l.pods[i].Pod, Partial: unlessRemoved(f.Err)}
		}
		l.pods[i] = f
	})
	forEach(len(l.containers), func(i int) {
		f := fetchContainer(ctx, h, l.containers[i].ID, hostenv.CallTimeout)
		if f.Err != nil {
			f = ContainerStatus{Container: l.containers[i].Container, Partial: unlessRemoved(f.Err)}
		}
		f.PodID = cmp.Or(f.PodID, l.containers[i].PodID)
		l.containers[i] = f
	})
	l.fetchUnlisted(ctx, h)
	l.locate(h.Cgroups)
	return l
}

// unlessRemoved returns nil for an object that was removed since the listing.
func unlessRemoved(err error) error {
	if errors.Is(err, cri.ErrNotFound) {
		return nil
	}
	return err
}

// fetchUnlisted fetches the sandboxes that the runtime does not list although it lists
// containers of them. Most of them are newer than the list of sandboxes.
func (l *Listing) fetchUnlisted(ctx context.Context, h *hostenv.Host) {
	asked := make(map[string]bool, len(l.pods)+len(l.known.pods))
	for i := range l.pods {
		asked[l.pods[i].ID] = true
	}
	for i := range l.known.pods {
		asked[l.known.pods[i].ID] = true
	}
	ask := func(c *cri.Container) {
		if c.PodID == "" || asked[c.PodID] || stateOf(c.State) == pools.Exited {
			return
		}
		asked[c.PodID] = true
		if f := fetchPod(ctx, h, c.PodID, hostenv.CallTimeout); f.Err == nil {
			l.pods = append(l.pods, f)
		}
	}
	for i := range l.containers {
		ask(&l.containers[i].Container)
	}
	for i := range l.known.containers {
		ask(&l.known.containers[i])
	}
}

// failures returns the errors of the objects without details.
func (l *Listing) failures() (all []error) {
	for i := range l.Units {
		all = append(all, l.Units[i].Err)
	}
	for i := range l.pods {
		all = append(all, l.pods[i].Partial)
	}
	for i := range l.containers {
		all = append(all, l.containers[i].Partial)
	}
	return slices.DeleteFunc(all, func(err error) bool { return err == nil })
}

// locate finds the cgroups that the runtime does not report. Their names contain the UID
// and the QoS class, and the kernel has their CPUs.
func (l *Listing) locate(fs *cgroup.FS) {
	var ids []string
	for i := range l.pods {
		if p := &l.pods[i]; p.isLost() {
			ids = append(ids, p.ID)
		}
	}
	for i := range l.containers {
		if c := &l.containers[i]; c.isLost() {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	found, _ := findCgroups(fs, ids) // after an error the other cgroups stay unknown
	for i := range l.pods {
		p := &l.pods[i]
		p.foundSlice, p.foundPause = found.pods[p.UID], found.containers[p.ID]
	}
	for i := range l.containers {
		l.containers[i].found = found.containers[l.containers[i].ID]
	}
}

// isLost reports whether the runtime has not reported the cgroups of the pod.
func (f *PodStatus) isLost() bool {
	return f.Partial != nil && f.CgroupParent == "" && f.CgroupsPath == ""
}

// isLost reports whether the runtime has not reported the cgroup of the container.
func (f *ContainerStatus) isLost() bool { return f.Partial != nil && f.CgroupsPath == "" }

// # Objects without details
//
// The runtime may list a pod or a container and answer a question for its details late, or
// not at all. Its answer may also lack details that planning needs. Such a container may
// hold exclusive CPUs. It keeps the CPUs that the journal and the kernel show
// (internal/node/recovery). The daemon moves it only off CPUs that certainly belong to
// another owner, and only while no CPUs are recorded for it.
//
// The runtime may list a container without its sandbox. The pod of a container that has not
// exited stays in the inventory. After a restart of the daemon only the UID of such a pod
// is known, from the names of the kubelet's cgroups.

var errUnlisted = errors.New("the runtime lists containers of it, and not the sandbox; they keep their CPUs")

// unlist drops a sandbox that the runtime does not list, unless the runtime lists a
// container of it that has not exited.
func (m *Inventory) unlist(id string) {
	var of *Container
	for _, e := range m.within[id] {
		if stateOf(e.Container.State) != pools.Exited && (of == nil || e.err == nil) {
			of = e
		}
	}
	switch e := m.pods[id]; {
	case of == nil:
		m.dropPod(id)
	case e != nil:
		e.unlisted = true
	default:
		m.clock++
		uid, _, _ := cgroup.PodOf(of.Path)
		// Without a report the sandbox counts as ready.
		m.setPod(id, &Pod{Pod: cri.Pod{ID: id, Ready: true}, UID: cmp.Or(uid, id), added: m.clock, unlisted: true, err: errUnlisted})
	}
}
