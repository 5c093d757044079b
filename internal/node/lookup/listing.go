package lookup

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
	Slices []cgroup.Path   // of the known pods
	Units  []string        // names in the configuration
	Known  map[string]bool // ids of pods and containers with known details
	AsOf   int             // clock of the inventory
	// InPods reports whether the answer contains the cgroups in the slices of pods.
	InPods bool
	// First marks the first listing. It gets more time: a node that boots answers late.
	First bool
	// UnitTimeout is the limit for the answer of systemd about one unit; 0 means a second, or
	// firstUnitTimeout in the first listing.
	UnitTimeout time.Duration
}

// Listing is the answer to a Query.
type Listing struct {
	Units  []UnitStatus
	Crio   managers.CRIO
	Failed []error // objects without details
	Err    error   // the runtime did not list its objects
	InPods []cgroup.Path

	AsOf       int // clock of the inventory when the listing was requested
	Pods       []PodStatus
	Containers []ContainerStatus
	// Known objects are as the runtime lists them, without details.
	KnownPods       []cri.Pod
	KnownContainers []cri.Container
}

// List asks the runtime for all pods and containers, and for the details that the
// inventory lacks. It asks systemd for the units of the query. An object that cannot be
// read is listed without details, and the next listing asks for it again.
func (q Query) List(ctx context.Context, h *hostenv.Host) Listing {
	var crio managers.CRIO
	if h.CRIO != nil {
		// Before the objects: a new workload of CRI-O makes an annotation count that the
		// known pods lack.
		if crio = h.CRIO(); h.Annotations.Learn(crio) {
			q.Known = nil
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
		l.scanPods(h, q.Slices)
	}
	l.AsOf, l.Crio = q.AsOf, crio
	l.Units = <-units
	l.Failed = l.failures()
	return l
}

// maxInPod bounds the cgroups of a pod in a Listing: a privileged pod can make any number.
const maxInPod = 1024

// scanPods lists the cgroups in the slices of pods. It leaves out slices that cannot be read.
func (l *Listing) scanPods(h *hostenv.Host, known []cgroup.Path) {
	for i := range l.Pods {
		if slice, _, err := podPaths(l.Pods[i].Pod, h.Driver); err == nil && slice != "" {
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
	limit := unitTimeout
	if q.First {
		limit = firstUnitTimeout
	}
	limit = cmp.Or(q.UnitTimeout, limit)
	all := make([]UnitStatus, len(q.Units))
	forEach(len(all), func(i int) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		all[i] = FetchUnit(ctx, h, q.Units[i])
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
	listLimit, detailsLimit := hostenv.CallTimeout, hostenv.UpdateTimeout
	if q.First {
		listLimit, detailsLimit = hostenv.UpdateTimeout, firstDetailsTimeout
	}
	// The limit is shorter than the one for the details of all objects: a runtime that hangs answers neither.
	listing, cancelListing := context.WithTimeout(ctx, listLimit)
	defer cancelListing()
	pods, containers, err := h.Runtime.List(listing)
	if err != nil {
		return Listing{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, detailsLimit)
	defer cancel()
	var l Listing
	// Most objects are known, and there are many: they stay in the runtime's lists.
	l.KnownPods = slices.DeleteFunc(pods, func(p cri.Pod) bool {
		if q.Known[p.ID] {
			return false
		}
		l.Pods = append(l.Pods, PodStatus{Pod: p})
		return true
	})
	l.KnownContainers = slices.DeleteFunc(containers, func(c cri.Container) bool {
		if q.Known[c.ID] {
			return false
		}
		l.Containers = append(l.Containers, ContainerStatus{Container: c})
		return true
	})
	forEach(len(l.Pods), func(i int) {
		f := fetchPod(ctx, h, l.Pods[i].ID, hostenv.CallTimeout)
		if f.Err != nil {
			f = PodStatus{Pod: l.Pods[i].Pod, Partial: unlessRemoved(f.Err)}
		}
		l.Pods[i] = f
	})
	forEach(len(l.Containers), func(i int) {
		f := fetchContainer(ctx, h, l.Containers[i].ID, hostenv.CallTimeout)
		if f.Err != nil {
			f = ContainerStatus{Container: l.Containers[i].Container, Partial: unlessRemoved(f.Err)}
		}
		f.PodID = cmp.Or(f.PodID, l.Containers[i].PodID)
		l.Containers[i] = f
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
	asked := make(map[string]bool, len(l.Pods)+len(l.KnownPods))
	for i := range l.Pods {
		asked[l.Pods[i].ID] = true
	}
	for i := range l.KnownPods {
		asked[l.KnownPods[i].ID] = true
	}
	ask := func(c *cri.Container) {
		if c.PodID == "" || asked[c.PodID] || c.State == cri.Exited {
			return
		}
		asked[c.PodID] = true
		if f := fetchPod(ctx, h, c.PodID, hostenv.CallTimeout); f.Err == nil {
			l.Pods = append(l.Pods, f)
		}
	}
	for i := range l.Containers {
		ask(&l.Containers[i].Container)
	}
	for i := range l.KnownContainers {
		ask(&l.KnownContainers[i])
	}
}

// failures returns the errors of the objects without details.
func (l *Listing) failures() (all []error) {
	for i := range l.Units {
		all = append(all, l.Units[i].Err)
	}
	for i := range l.Pods {
		all = append(all, l.Pods[i].Partial)
	}
	for i := range l.Containers {
		all = append(all, l.Containers[i].Partial)
	}
	return slices.DeleteFunc(all, func(err error) bool { return err == nil })
}

// locate finds the cgroups that the runtime does not report. Their names contain the UID
// and the QoS class, and the kernel has their CPUs.
func (l *Listing) locate(fs *cgroup.FS) {
	var ids []string
	for i := range l.Pods {
		if p := &l.Pods[i]; p.isLost() {
			ids = append(ids, p.ID)
		}
	}
	for i := range l.Containers {
		if c := &l.Containers[i]; c.isLost() {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	found, _ := findCgroups(fs, ids) // after an error the other cgroups stay unknown
	for i := range l.Pods {
		p := &l.Pods[i]
		p.foundSlice, p.foundPause = found.pods[p.UID], found.containers[p.ID]
	}
	for i := range l.Containers {
		l.Containers[i].found = found.containers[l.Containers[i].ID]
	}
}

// isLost reports whether the runtime has not reported the cgroups of the pod.
func (f *PodStatus) isLost() bool {
	return f.Partial != nil && f.CgroupParent == "" && f.CgroupsPath == ""
}

// isLost reports whether the runtime has not reported the cgroup of the container.
func (f *ContainerStatus) isLost() bool { return f.Partial != nil && f.CgroupsPath == "" }
