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

// Listing is the result of a complete listing.
type Listing struct {
	AsOf       int // the model's clock when the listing was asked for
	Units      []UnitStatus
	Crio       managers.CRIO
	Pods       []PodStatus // whose details were asked for
	Containers []ContainerStatus
	Known      Lists   // the others
	Failed     []error // objects whose details could not be had
	Err        error
}

// Lists are objects as the runtime lists them, without details.
type Lists struct {
	Pods       []cri.Pod
	Containers []cri.Container
}

const (
	// UnitPatience is the limit for what systemd holds for a new container. The
	// container is placed without it, and systemd is busy for seconds in a
	// daemon-reload.
	UnitPatience = time.Second
)

const (
	// StartPatience is the limit for the configured units before the first listing is
	// complete: nothing is written without them then, so that to ask again takes
	// longer than to wait.
	StartPatience = 5 * time.Second
)

// maxQuestions is the maximum number of questions of one listing that are asked at once.
const maxQuestions = 8

// Limits are those of a census: for each unit, and for the runtime's lists.
type Limits struct{ Unit, Listing time.Duration }

// List asks the runtime for everything, and for the details of what is not known
// yet, and systemd for the units of the configuration. One object that cannot be
// read does not spoil the others: it is listed without details, with why, and asked
// for again next time.
func List(ctx context.Context, h *hostenv.Host, names []string, within Limits, known func(id string) bool) Listing {
	// Neither waits for the other: systemd may take its time for each unit.
	units := make(chan []UnitStatus, 1)
	go func() { units <- askAll(h, ctx, names, within.Unit) }()
	l := inspect(h, ctx, within.Listing, known)
	if h.CRIO != nil {
		l.Crio = h.CRIO()
	}
	l.Units = <-units
	l.Failed = l.failures()
	return l
}

// askAll asks systemd for units.
func askAll(h *hostenv.Host, ctx context.Context, names []string, patience time.Duration) []UnitStatus {
	if h.Units == nil {
		return nil
	}
	all := make([]UnitStatus, len(names))
	var g errgroup.Group
	g.SetLimit(maxQuestions)
	for i, name := range names {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			all[i] = FetchUnit(h, ctx, name)
			return nil
		})
	}
	_ = g.Wait() // no job returns an error
	return all
}

// listAll is one question, whose answer tells whether the runtime hangs: the details of
// many objects may take it longer, and so may the first answer on a node that boots.
func listAll(h *hostenv.Host, ctx context.Context, patience time.Duration) ([]cri.Pod, []cri.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return h.Runtime.List(ctx)
}

// inspect asks the runtime.
func inspect(h *hostenv.Host, ctx context.Context, patience time.Duration, known func(id string) bool) Listing {
	if h.Runtime == nil {
		return Listing{}
	}
	ctx, cancel := context.WithTimeout(ctx, hostenv.UpdateTimeout)
	defer cancel()
	pods, containers, err := listAll(h, ctx, patience)
	if err != nil {
		return Listing{Err: err}
	}
	var l Listing
	// Most are known, and many: they stay in the lists that they came in.
	l.Known.Pods = slices.DeleteFunc(pods, func(p cri.Pod) bool {
		if known(p.ID) {
			return false
		}
		l.Pods = append(l.Pods, PodStatus{Pod: p})
		return true
	})
	l.Known.Containers = slices.DeleteFunc(containers, func(c cri.Container) bool {
		if known(c.ID) {
			return false
		}
		l.Containers = append(l.Containers, ContainerStatus{Container: c})
		return true
	})
	var g errgroup.Group
	g.SetLimit(maxQuestions)
	for i := range l.Pods {
		g.Go(func() error {
			l.Pods[i] = inspectPod(h, ctx, l.Pods[i].Pod)
			return nil
		})
	}
	for i := range l.Containers {
		g.Go(func() error {
			l.Containers[i] = inspectContainer(h, ctx, l.Containers[i].Container)
			return nil
		})
	}
	_ = g.Wait() // no job returns an error
	l.Pods = append(l.Pods, InspectUnlisted(h, ctx, l)...)
	l.locate(h.Cgroups)
	return l
}

// inspectPod asks for the details of a pod that is listed.
func inspectPod(h *hostenv.Host, ctx context.Context, p cri.Pod) PodStatus {
	f, err := FetchPod(ctx, h.Runtime, h.Units, h.Driver, p.ID, hostenv.CallTimeout)
	switch {
	case err == nil:
		return f
	case errors.Is(err, cri.ErrNotFound):
		err = nil // gone since
	}
	return PodStatus{Pod: p, Partial: err}
}

// inspectContainer asks for the details of a container that is listed.
func inspectContainer(h *hostenv.Host, ctx context.Context, c cri.Container) ContainerStatus {
	f, err := FetchContainer(ctx, h.Runtime, h.Units, h.Driver, c.ID, hostenv.CallTimeout)
	switch {
	case err == nil:
		f.PodID = cmp.Or(f.PodID, c.PodID)
		return f
	case errors.Is(err, cri.ErrNotFound):
		err = nil
	}
	return ContainerStatus{Container: c, Partial: err}
}

// failures are why objects have no details.
func (l *Listing) failures() []error {
	var all []error
	add := func(err error) {
		if err != nil {
			all = append(all, err)
		}
	}
	for i := range l.Units {
		add(l.Units[i].Err)
	}
	for i := range l.Pods {
		add(l.Pods[i].Partial)
	}
	for i := range l.Containers {
		add(l.Containers[i].Partial)
	}
	return all
}

// locate finds the cgroups that the runtime does not tell: their names say whose they
// are, and of which class, and the kernel what they have.
func (l *Listing) locate(fs *cgroup.FS) {
	var ids []string
	for _, p := range l.Pods {
		if p.lost() {
			ids = append(ids, p.ID)
		}
	}
	for _, c := range l.Containers {
		if c.lost() {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	// What has not been found when an error ended the walk stays unknown, as it was.
	found, _ := Locate(fs, ids)
	for i := range l.Pods {
		if p := &l.Pods[i]; p.lost() {
			p.foundSlice, p.foundPause = found.Pods[p.UID], found.Containers[p.ID]
		}
	}
	for i := range l.Containers {
		if c := &l.Containers[i]; c.lost() {
			c.found = found.Containers[c.ID]
		}
	}
}

// lost says that the runtime has not told where the object's cgroups are.
func (f *PodStatus) lost() bool {
	return f.Partial != nil && f.CgroupParent == "" && f.CgroupsPath == ""
}

func (f *ContainerStatus) lost() bool { return f.Partial != nil && f.CgroupsPath == "" }

// InspectUnlisted asks for the sandboxes of listed containers that are not listed
// themselves: most are newer than the list of them.
func InspectUnlisted(h *hostenv.Host, ctx context.Context, l Listing) (found []PodStatus) {
	asked := make(map[string]bool, len(l.Pods)+len(l.Known.Pods))
	for i := range l.Pods {
		asked[l.Pods[i].ID] = true
	}
	for i := range l.Known.Pods {
		asked[l.Known.Pods[i].ID] = true
	}
	ask := func(c *cri.Container) {
		if c.PodID == "" || asked[c.PodID] || stateOf(c.State) == pools.Exited {
			return
		}
		asked[c.PodID] = true
		if f, err := FetchPod(ctx, h.Runtime, h.Units, h.Driver, c.PodID, hostenv.CallTimeout); err == nil {
			found = append(found, f)
		}
	}
	for i := range l.Containers {
		ask(&l.Containers[i].Container)
	}
	for i := range l.Known.Containers {
		ask(&l.Known.Containers[i])
	}
	return found
}
