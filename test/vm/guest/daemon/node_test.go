//go:build guest

package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/walk"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
)

const (
	configFile = "/etc/cpupoold/config.yaml"
	manifests  = "/etc/kubernetes/manifests"

	// nodeTimeout is the timeout of each step on the node: it is emulated, and shares its two CPUs with other guests.
	nodeTimeout = 5 * time.Minute
)

// pools is a configuration for eight CPUs. The resync is far away, so that it cannot do the events' work. The kubelet's pods are static ones,
// so staticPods lets the daemon reject the false one.
const pools = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0-1
  namespaces: [kube-system]
staticPods: [kube-system, cpupoold]
shared:
  cpus: 2-3
guaranteed:
  cpus: 4-7
resyncPeriod: 5m
podResourcesSocket: none
logFormat: json
`

// node is the guest as the tests use it.
type node struct {
	*testing.T
	fs     *cgroup.FS
	client *cri.Client
	image  guestnode.Runtime // description of the runtime in the machine's image
	// keepsPods is set by the last test in a guest: no test needs the node afterwards.
	keepsPods bool
}

// newNode makes sure that the node is as after boot: kubelet and runtime run, no daemon, no pods.
func newNode(t *testing.T) *node {
	t.Helper()
	fs, err := cgroup.Open("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	image, err := guestnode.ReadRuntime()
	if err != nil {
		t.Fatal(err)
	}
	client, err := cri.Dial(image.Socket, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{T: t, fs: fs, client: client, image: image}
	t.Cleanup(func() {
		n.stopDaemon()
		if !n.keepsPods {
			n.run("systemctl", "start", image.Unit, "kubelet")
			n.clearManifests()
		}
		if err := os.RemoveAll("/var/lib/cpupoold"); err != nil {
			t.Error(err)
		}
		_ = client.Close()
	})
	n.clearManifests()
	return n
}

// scope is the name of a container's cgroup.
func (n *node) scope(id string) string {
	if n.image.Name == "cri-o" {
		return "crio-" + id + ".scope"
	}
	return "cri-containerd-" + id + ".scope"
}

// run runs a command and returns its output.
func (n *node) run(name string, args ...string) string {
	n.Helper()
	out, err := n.try(name, args...)
	if err != nil {
		n.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func (n *node) try(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), nodeTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(out), err
}

// eventually waits until cond returns nil.
func (n *node) eventually(what string, cond func() error) {
	n.Helper()
	n.every(100*time.Millisecond, what, cond)
}

// every is eventually for an expensive cond.
func (n *node) every(period time.Duration, what string, cond func() error) {
	n.Helper()
	deadline := time.Now().Add(nodeTimeout)
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			n.Fatalf("timed out waiting for %s: %v\n%s", what, err, n.evidence())
		}
		<-tick.C
	}
}

// evidence returns the state that explains a failed test.
func (n *node) evidence() string {
	log, _ := n.try("journalctl", "--no-pager", "-o", "cat", "-n", "60", "-u", "cpupoold")
	return n.dump() + "\nlog of the daemon:\n" + log
}

func (n *node) write(name, content string) {
	n.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		n.Fatal(err)
	}
	// The kubelet and the daemon must never see half a file.
	temp := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)) // which the kubelet does not look at, see guestnode.Node.Write
	if err := os.WriteFile(temp, []byte(content), 0o644); err != nil {
		n.Fatal(err)
	}
	if err := os.Rename(temp, name); err != nil {
		n.Fatal(err)
	}
}

// startDaemon starts the unit; systemd waits for its READY.
func (n *node) startDaemon(config string) {
	n.Helper()
	n.write(configFile, config)
	_, _ = n.try("systemctl", "reset-failed", "cpupoold") // an error when it has never run
	if out, err := n.try("systemctl", "start", "cpupoold"); err != nil {
		n.Fatalf("start daemon: %v: %s\n%s", err, out, n.evidence())
	}
}

func (n *node) stopDaemon() {
	n.Helper()
	n.run("systemctl", "stop", "cpupoold")
}

// container is the node's state of one container.
type container struct {
	cri.Container
	pod  cri.Pod
	path cgroup.Path
	cgroup.State
}

// find returns the running container of a pod by their names.
func (n *node) find(pod, name string) (container, error) {
	all, err := n.containers()
	if err != nil {
		return container{}, err
	}
	for _, c := range all {
		// The kubelet appends the node's name to the name of a static pod.
		if c.Name == name && (c.pod.Name == pod || c.pod.Name == pod+"-node") {
			return c, nil
		}
	}
	return container{}, fmt.Errorf("pod %s has no running container %s", pod, name)
}

// containers are all running containers with their cgroups.
func (n *node) containers() ([]container, error) {
	ctx, cancel := context.WithTimeout(context.Background(), nodeTimeout)
	defer cancel()
	pods, all, err := n.client.List(ctx)
	if err != nil {
		return nil, err
	}
	var out []container
	for _, c := range all {
		i := slices.IndexFunc(pods, func(p cri.Pod) bool { return p.ID == c.PodID })
		if c.State != cri.Running || i < 0 {
			continue
		}
		full, err := n.client.ContainerStatus(ctx, c.ID)
		if err != nil {
			continue // it has ended since the listing
		}
		path, err := cgroup.ContainerPath(full.CgroupsPath, cgroup.DriverSystemd)
		if err != nil {
			return nil, err
		}
		st, err := n.fs.Read(path)
		if err != nil {
			continue
		}
		out = append(out, container{Container: full, pod: pods[i], path: path, State: st})
	}
	return out, nil
}

// want is the expected place of a container.
type want struct {
	pod, container string
	cpus           string
	weight         uint64 // 0: any
	unlimited      bool
}

// check compares the kernel's values with want, also for each process inside.
func (n *node) check(w want) error {
	c, err := n.find(w.pod, w.container)
	if err != nil {
		return err
	}
	if got := c.Effective.String(); got != w.cpus {
		return fmt.Errorf("%s/%s: cpuset.cpus.effective = %s; want %s", w.pod, w.container, got, w.cpus)
	}
	if w.weight != 0 && c.Weight != w.weight {
		return fmt.Errorf("%s/%s: cpu.weight = %d; want %d", w.pod, w.container, c.Weight, w.weight)
	}
	if w.unlimited && c.Quota != -1 {
		return fmt.Errorf("%s/%s: cpu.max has a quota of %d us", w.pod, w.container, c.Quota)
	}
	slice, err := n.fs.Read(c.path.Parent())
	if err != nil {
		return err
	}
	if w.unlimited && slice.Quota != -1 {
		return fmt.Errorf("%s/%s: the pod's slice has a quota of %d us", w.pod, w.container, slice.Quota)
	}
	lists, err := n.processes(c.path)
	if err != nil {
		return err
	}
	if len(lists) == 0 {
		return fmt.Errorf("%s/%s: no processes in %s", w.pod, w.container, c.path)
	}
	for pid, got := range lists {
		if got != w.cpus {
			return fmt.Errorf("%s/%s: Cpus_allowed_list of process %d = %s; want %s", w.pod, w.container, pid, got, w.cpus)
		}
	}
	return nil
}

// processes returns Cpus_allowed_list of each process in a cgroup.
func (n *node) processes(p cgroup.Path) (map[int]string, error) {
	data, err := n.fs.ReadFile(p, "cgroup.procs")
	if err != nil {
		return nil, err
	}
	lists := make(map[int]string)
	for field := range strings.FieldsSeq(string(data)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it has ended since the listing
		}
		for line := range strings.Lines(string(status)) {
			if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
				lists[pid] = strings.TrimSpace(list)
			}
		}
	}
	return lists, nil
}

// placed waits until all are where they should be.
func (n *node) placed(wants ...want) {
	n.Helper()
	for _, w := range wants {
		n.eventually("placement", func() error { return n.check(w) })
	}
}

// still is placed without the waiting.
func (n *node) still(when string, wants ...want) {
	n.Helper()
	for _, w := range wants {
		if err := n.check(w); err != nil {
			n.Errorf("after %s: %v\n%s", when, err, n.evidence())
		}
	}
}

// dump prints the tree below kubepods.slice.
func (n *node) dump() string {
	var b strings.Builder
	err := walk.Cgroups(n.fs, "kubepods.slice", func(p cgroup.Path) error {
		if st, err := n.fs.Read(p); err == nil {
			fmt.Fprintf(&b, "%s cpus=%q effective=%s weight=%d max=%d/%d\n", p, st.CPUs, st.Effective, st.Weight, st.Quota, st.Period)
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}

// scope lists the cgroups that make an occupant.
type scope bool

const (
	placedOnly scope = false // with their own cpuset: others have just been started
	everybody  scope = true  // all with processes: on a node that has settled, each must be placed
)

// occupants are the places of the processes of all pods. It reads no more than it needs: the model test calls it all the time, and the
// node is emulated.
func (n *node) occupants(of scope) ([]invariants.Occupant, error) {
	scopes, err := filepath.Glob("/sys/fs/cgroup/kubepods.slice/*.slice/*.scope")
	if err != nil {
		return nil, err
	}
	deeper, err := filepath.Glob("/sys/fs/cgroup/kubepods.slice/*.slice/*.slice/*.scope")
	if err != nil {
		return nil, err
	}
	var occupants []invariants.Occupant
	for _, dir := range append(scopes, deeper...) {
		c, populated, err := occupant(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENODEV): // it has ended
		case err != nil:
			return nil, err
		case populated && (of == everybody || c.placed):
			occupants = append(occupants, c.Occupant)
		}
	}
	return occupants, nil
}

// placedOccupant is an occupant with a flag for a cgroup that has its own cpuset.
type placedOccupant struct {
	invariants.Occupant
	placed bool
}

func occupant(dir string) (c placedOccupant, populated bool, err error) {
	events, err := os.ReadFile(dir + "/cgroup.events")
	if err != nil || !strings.Contains(string(events), "populated 1") {
		return c, false, err
	}
	var sets [2]cpuset.Set
	for i, file := range []string{"/cpuset.cpus", "/cpuset.cpus.effective"} {
		text, err := os.ReadFile(dir + file)
		if err != nil {
			return c, false, err
		}
		if sets[i], err = cpuset.Parse(strings.TrimSpace(string(text))); err != nil {
			return c, false, err
		}
	}
	c.placed = !sets[0].IsEmpty()
	c.Occupant = invariants.Occupant{Name: dir, CPUs: sets[1], Exclusive: c.placed && sets[0].IsSubsetOf(guaranteed())}
	return c, true, nil
}

// records are the daemon's log records with the given message, since its unit was started last.
func (n *node) records(msg string) []map[string]any {
	n.Helper()
	id := strings.TrimSpace(n.run("systemctl", "show", "-P", "InvocationID", "cpupoold"))
	out := n.run("journalctl", "--no-pager", "-o", "cat", "_SYSTEMD_INVOCATION_ID="+id)
	var records []map[string]any
	for line := range strings.Lines(out) {
		var r map[string]any
		if json.Unmarshal([]byte(line), &r) == nil && r["msg"] == msg {
			records = append(records, r)
		}
	}
	return records
}

// guaranteed are the CPUs of the guaranteed pool in pools.
func guaranteed() cpuset.Set { return cpuset.Range(4, 7) }

// ownCPUs waits until a container is on guaranteed CPUs and returns the expectation with these
// CPUs.
func (n *node) ownCPUs(w want) want {
	n.Helper()
	n.eventually("exclusive placement", func() error {
		c, err := n.find(w.pod, w.container)
		if err != nil {
			return err
		}
		w.cpus, w.unlimited = c.Effective.String(), true
		if !c.Effective.IsSubsetOf(guaranteed()) {
			return fmt.Errorf("%s/%s runs on %s", w.pod, w.container, c.Effective)
		}
		return n.check(w)
	})
	return w
}

// invariants checks invariants 1 and 2 of ARCHITECTURE.md against the kernel, on a node that has
// settled.
func (n *node) invariants() {
	n.Helper()
	occupants, err := n.occupants(everybody)
	if err != nil {
		n.Fatal(err)
	}
	for _, err := range invariants.CheckOccupants(occupants) {
		n.Errorf("%v\n%s", err, n.evidence())
	}
}

// quiet waits until the daemon has nothing left to write.
func (n *node) quiet() {
	n.Helper()
	n.every(time.Second, "plan without writes", func() error {
		p := n.plan()
		if len(p.Writes) > 0 || len(p.Deferred) > 0 {
			return fmt.Errorf("still to do: %v %v", p.Writes, p.Deferred)
		}
		return nil
	})
}

// plan returns the output of `cpupoold plan`.
func (n *node) plan() preview.Preview {
	n.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), nodeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "cpupoold", "plan", "-o", "json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		n.Fatalf("cpupoold plan: %v\n%s", err, n.evidence())
	}
	var p preview.Preview
	if err := json.Unmarshal(out, &p); err != nil {
		n.Fatalf("cpupoold plan: %v: %s", err, out)
	}
	return p
}
