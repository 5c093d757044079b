package daemon

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
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

var errUnlisted = errors.New("the runtime lists containers of it, and not the sandbox; they keep their CPUs")

// unlist drops a sandbox that the runtime does not list, unless it lists a container
// of it that has not exited.
func (m *model) unlist(id string) {
	var of *containerEntry
	for _, e := range m.within[id] {
		if stateOf(e.container.State) != pools.Exited && (of == nil || e.err == nil) {
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
		uid, _, _ := cgroup.PodOf(of.path)
		// For all that is known it is ready: it is the runtime that does not tell.
		m.setPod(id, &podEntry{pod: cri.Pod{ID: id, Ready: true}, uid: cmp.Or(uid, id), added: m.clock, unlisted: true, err: errUnlisted})
	}
}

// inspectUnlisted asks for the sandboxes of listed containers that are not listed
// themselves: most are newer than the list of them.
func (h *host) inspectUnlisted(ctx context.Context, l listed) (found []podFacts) {
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
		if f, err := lookAtPod(ctx, h.runtime, h.units, h.driver, c.PodID, callTimeout); err == nil {
			found = append(found, f)
		}
	}
	for i := range l.containers {
		ask(&l.containers[i].Container)
	}
	for i := range l.known.containers {
		ask(&l.known.containers[i])
	}
	return found
}

// unread says that it is not known what a pod is, or what it asks for where that
// matters.
func (e *podEntry) unread() bool {
	switch e.qos {
	case pools.QoSNone:
		return e.err != nil
	case pools.QoSGuaranteed:
		return e.err != nil && e.pod.Resources.Shares == 0
	}
	return false
}

// unread says that the runtime has not told what a container asks for.
func (e *containerEntry) unread() bool { return e.err != nil && asked(e.container).Shares == 0 }

// stay leaves those where they are of whom it is not known what they are. The plan
// has the shared pool for them.
func (s scene) stay(p pools.Plan, want []cgroup.Target) []cgroup.Target {
	unread := s.model.unreadPaths(p)
	if len(unread) == 0 {
		return want
	}
	owned := ownedBy(p)
	kept := want[:0]
	for _, t := range want {
		if !unread[t.Path] || s.mustGo(&t, owned) {
			kept = append(kept, t)
		}
	}
	return kept
}

// mustGo says that a target must not stay where it is, and takes from it only what
// has another owner. Who has never been placed is on all CPUs, and nobody's owner.
func (s scene) mustGo(t *cgroup.Target, owned cpuset.Set) bool {
	st, err := s.read(t.Path)
	if err != nil && !s.model.awaited(*t) {
		return false
	}
	record := s.model.recorded(*t)
	recorded := record.Recorded.Union(record.Unit.CPUs)
	has := st.CPUs
	if err != nil {
		has = recorded
	}
	if has.IsEmpty() {
		return true
	}
	if left := has.Difference(owned); !left.IsEmpty() {
		t.CPUs = left
	}
	return has.Union(recorded).Overlaps(owned)
}

// unreadPaths are the cgroups of those of whom it is not known what they are, and
// who have no CPUs on record.
func (m *model) unreadPaths(p pools.Plan) map[cgroup.Path]bool {
	paths := make(map[cgroup.Path]bool)
	for _, pod := range p.Pods {
		for _, c := range pod.Containers {
			switch e := m.containers[c.ID]; {
			case c.Exclusive:
			case c.Kind == pools.Infra && c.Unread:
				paths[m.pods[c.ID].pause] = true
			case e != nil && (c.Unread || e.unread()):
				paths[e.path] = true
			}
		}
	}
	return paths
}

// located are cgroups whose names say what they are for.
type located struct {
	pods       map[string]cgroup.Path // by UID
	containers map[string]cgroup.Path // by id, also those of sandboxes
}

// locate finds the cgroups of pods, which the kubelet names after their UIDs, and
// those of the containers with the given ids, which runtimes make a part of the name.
func locate(fs *cgroup.FS, ids []string) (located, error) {
	found := located{pods: make(map[string]cgroup.Path), containers: make(map[string]cgroup.Path, len(ids))}
	err := fs.Walk("", func(p cgroup.Path) error {
		if uid, _, ok := cgroup.PodOf(p); ok && found.pods[uid] == "" {
			found.pods[uid] = p // what is in it comes after it
		}
		name := strings.TrimSuffix(p.Base(), ".scope")
		for _, id := range ids {
			if prefix, ok := strings.CutSuffix(name, id); ok && isContainerPrefix(prefix) && found.containers[id] == "" {
				found.containers[id] = p
			}
		}
		return nil
	})
	return found, err
}

// isContainerPrefix tells what comes before the id of a container from what comes
// before that of its monitor (crio-conmon-ID.scope).
func isContainerPrefix(prefix string) bool {
	return prefix == "" || strings.HasSuffix(prefix, "-") && !strings.HasSuffix(prefix, "conmon-")
}
