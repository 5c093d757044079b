package inventory_test

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestHostsContainers checks when a sandbox hosts its containers: the runtime reports them as
// running, and their own cgroups have no process.
func TestHostsContainers(t *testing.T) {
	const own = "kubepods.slice/" + slice + "/cri-containerd-"
	for name, c := range map[string]struct {
		state      cri.State
		cgroups    map[string]string // processes by container
		beside     cri.State         // of a second container, 0 for none
		hosts      bool
		kataCgroup bool
	}{
		"Kata: no cgroup":       {state: cri.Running, hosts: true, kataCgroup: true},
		"gVisor: empty cgroup":  {state: cri.Running, cgroups: map[string]string{"c": ""}, hosts: true, kataCgroup: true},
		"runc":                  {state: cri.Running, cgroups: map[string]string{"c": "17"}},
		"created":               {state: cri.Created, kataCgroup: true},
		"runc, created":         {state: cri.Created, cgroups: map[string]string{"c": "17"}},
		"ended":                 {state: cri.Exited, kataCgroup: true},
		"two in one sandbox":    {state: cri.Running, beside: cri.Created, hosts: true, kataCgroup: true},
		"one ends, another not": {state: cri.Running, beside: cri.Running, cgroups: map[string]string{"d": "18"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.tree.MkdirAll("kubepods.slice/" + slice)
			for id, process := range c.cgroups {
				w.tree.MkdirAll(own + id + ".scope")
				if process == "" {
					continue
				}
				if err := w.tree.Write(own+id+".scope/cgroup.procs", process); err != nil {
					t.Fatal(err)
				}
			}
			_, first := w.run(c.state)
			if name := "d"; c.beside != 0 || c.cgroups["d"] != "" {
				first.ID, first.Name, first.State, first.CgroupsPath = name, name, c.beside, slice+":cri-containerd:d"
				w.runtime.containers["d"] = first
			}
			w.list()
			if got := w.Pod("p").HostsContainers(); got != c.hosts {
				t.Errorf("hosts its containers: %t, want %t", got, c.hosts)
			}
			if got := w.Container("c").IsHosted(); got != c.hosts {
				t.Errorf("container is hosted: %t, want %t", got, c.hosts)
			}
			for base, want := range map[string]bool{"kata_p": c.kataCgroup, "kata_cri-containerd-p.scope": c.kataCgroup, "kata_other": false, "p": false} {
				if got := w.Pod("p").IsSandboxCgroup(cgroup.Path("kubepods.slice/" + slice).Join(base)); got != want {
					t.Errorf("%s is the cgroup of the sandbox: %t, want %t", base, got, want)
				}
			}
		})
	}
}

// TestNoteProcesses checks which container must be fetched again, and that a container with
// processes in its own cgroup never counts as hosted.
func TestNoteProcesses(t *testing.T) {
	w := newWorld(t)
	w.run(cri.Created)
	w.list()
	if w.Container("c").NoteProcesses(false) || w.Container("unknown").NoteProcesses(false) {
		t.Error("a created or unknown container must be fetched")
	}
	w.Event(cri.Event{ContainerID: "c", PodID: "p", Kind: cri.ContainerStarted})
	if !w.Container("c").NoteProcesses(false) {
		t.Error("a running container without processes is not fetched")
	}
	if w.Container("c").NoteProcesses(true) || w.Container("c").NoteProcesses(false) {
		t.Error("a container that had processes must be fetched")
	}
	_, c := w.run(cri.Running) // its cgroup is gone
	w.runtime.containers["c"] = c
	w.fetchContainer("c", w.Clock())
	if w.Pod("p").HostsContainers() {
		t.Error("a container that ends counts as hosted")
	}
}

// TestLost checks which containers without a cgroup are reported, after a minute and two listings.
func TestLost(t *testing.T) {
	const own = "kubepods.slice/" + slice + "/cri-containerd-c.scope"
	for name, test := range map[string]struct {
		handler  string
		seen     bool // a process ran in its cgroup
		back     bool // the cgroup exists again
		shared   bool // it needs no exclusive CPUs
		ended    bool
		listings int // in addition to the first one
		waits    time.Duration
		want     bool
	}{
		"its cgroup is gone":            {seen: true, listings: 2, waits: time.Minute, want: true},
		"soon":                          {seen: true, listings: 2, waits: 59 * time.Second},
		"after one listing":             {seen: true, listings: 1, waits: time.Hour},
		"the cgroup is back":            {seen: true, back: true, listings: 2, waits: time.Minute},
		"it has ended":                  {seen: true, ended: true, listings: 2, waits: time.Minute},
		"shared CPUs":                   {seen: true, shared: true, listings: 2, waits: time.Minute},
		"never seen":                    {listings: 2, waits: time.Minute, want: true},
		"never seen, with a handler":    {handler: "kata", listings: 2, waits: time.Minute},
		"seen before, with a handler":   {handler: "fast", seen: true, listings: 2, waits: time.Minute, want: true},
		"much later, without a listing": {seen: true, waits: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.tree.MkdirAll("kubepods.slice/" + slice)
			if test.seen {
				w.tree.MkdirAll(own)
				if err := w.tree.Write(own+"/cgroup.procs", "17"); err != nil {
					t.Fatal(err)
				}
			}
			pod, c := w.run(cri.Running)
			pod.RuntimeHandler = test.handler
			if test.shared {
				c.Requested = cri.Resources{Shares: 512}
			}
			w.runtime.pods["p"], w.runtime.containers["c"] = pod, c
			w.list()
			if test.seen {
				if err := w.tree.Remove(own); err != nil {
					t.Fatal(err)
				}
				w.fetchContainer("c", w.Clock())
			}
			lost := w.now
			if w.now = w.now.Add(test.waits); test.back {
				w.tree.MkdirAll(own)
				w.Container("c").NoteProcesses(true)
			}
			if test.ended {
				c.State = cri.Exited
				w.runtime.containers["c"] = c
				w.fetchContainer("c", w.Clock())
			}
			for range test.listings {
				w.list()
			}
			got := 0
			for e, since := range w.Lost() {
				if got++; e.Container.ID != "c" || !since.Equal(lost) {
					t.Errorf("lost: %s since %v; want c since %v", e.Container.ID, since, lost)
				}
			}
			if (got == 1) != test.want {
				t.Errorf("%d containers are lost; want one: %t", got, test.want)
			}
		})
	}
}
