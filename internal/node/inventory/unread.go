package inventory

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # Unread objects
//
// The runtime may list a pod or a container and not tell what it is: it answers
// late, or not at all, or leaves out what the daemon needs. Such a container may
// have CPUs of its own. It keeps what journal and kernel say it has (recover.go),
// and it is not moved: only from CPUs that somebody else has for certain, and when
// nobody has ever given it any.
//
// It may also list a container and not its sandbox. As long as such a container has
// not exited, its pod stays what it was; after a start of the daemon it is one of
// which nothing is known but the UID, which is in the names of the kubelet's cgroups.

var ErrUnlisted = errors.New("the runtime lists containers of it, and not the sandbox; they keep their CPUs")

// Unlist drops a sandbox that the runtime does not list, unless it lists a container
// of it that has not exited.
func (m *Inventory) Unlist(id string) {
	var of *Container
	for _, e := range m.within[id] {
		if stateOf(e.Container.State) != pools.Exited && (of == nil || e.Err == nil) {
			of = e
		}
	}
	switch e := m.Pods[id]; {
	case of == nil:
		m.dropPod(id)
	case e != nil:
		e.Unlisted = true
	default:
		m.Clock++
		uid, _, _ := cgroup.PodOf(of.Path)
		// For all that is known it is ready: it is the runtime that does not tell.
		m.setPod(id, &Pod{Pod: cri.Pod{ID: id, Ready: true}, Uid: cmp.Or(uid, id), added: m.Clock, Unlisted: true, Err: ErrUnlisted})
	}
}

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

// Unread says that it is not known what a pod is, or what it asks for where that
// matters.
func (e *Pod) Unread() bool {
	switch e.Qos {
	case pools.QoSNone:
		return e.Err != nil
	case pools.QoSGuaranteed:
		return e.Err != nil && e.Pod.Resources.Shares == 0
	}
	return false
}

// Unread says that the runtime has not told what a container asks for.
func (e *Container) Unread() bool { return e.Err != nil && RequestOf(e.Container).Shares == 0 }

// Located are cgroups whose names say what they are for.
type Located struct {
	Pods       map[string]cgroup.Path // by UID
	Containers map[string]cgroup.Path // by id, also those of sandboxes
}

// Locate finds the cgroups of pods, which the kubelet names after their UIDs, and
// those of the containers with the given ids, which runtimes make a part of the name.
func Locate(fs *cgroup.FS, ids []string) (Located, error) {
	found := Located{Pods: make(map[string]cgroup.Path), Containers: make(map[string]cgroup.Path, len(ids))}
	err := fs.Walk("", func(p cgroup.Path) error {
		if uid, _, ok := cgroup.PodOf(p); ok && found.Pods[uid] == "" {
			found.Pods[uid] = p // what is in it comes after it
		}
		name := strings.TrimSuffix(p.Base(), ".scope")
		for _, id := range ids {
			if prefix, ok := strings.CutSuffix(name, id); ok && IsContainerPrefix(prefix) && found.Containers[id] == "" {
				found.Containers[id] = p
			}
		}
		return nil
	})
	return found, err
}

// IsContainerPrefix tells what comes before the id of a container from what comes
// before that of its monitor (crio-conmon-ID.scope).
func IsContainerPrefix(prefix string) bool {
	return prefix == "" || strings.HasSuffix(prefix, "-") && !strings.HasSuffix(prefix, "conmon-")
}
