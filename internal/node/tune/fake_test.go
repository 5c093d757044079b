package tune

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func set(t testing.TB, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fakeHost is a host with eight CPUs. Its writes fail with the errors of the kernel.
type fakeHost struct {
	mu        sync.Mutex
	t         testing.TB
	online    cpuset.Set
	files     fstest.MapFS     // below /
	immovable map[string]error // by the number of the interrupt
	ignores   map[string]bool  // by the number: writes succeed without effect
	affinity  map[int]cpuset.Set
	wrote     []string
}

func newFake(t testing.TB) *fakeHost {
	h := &fakeHost{
		t: t, online: cpuset.Range(0, 7), files: fstest.MapFS{}, affinity: make(map[int]cpuset.Set),
		immovable: make(map[string]error), ignores: make(map[string]bool),
	}
	h.put("proc/irq/default_smp_affinity", "ff\n")
	h.irq("0", "0-7", "")
	h.irq("24", "0-7", "virtio0-input.0")
	h.irq("25", "4", "virtio0-output.0")
	h.irq("26", "2-5", "nvme0q5")
	h.immovable["26"] = syscall.EPERM
	h.put("sys/devices/virtual/workqueue/cpumask", "ff\n")
	h.put("sys/class/net/eth0/ifindex", "2\n")
	h.put("sys/class/net/eth0/queues/rx-0/rps_cpus", "00\n")
	h.put("sys/class/net/eth0/queues/rx-1/rps_cpus", "f0\n")
	h.put("sys/class/net/bonding_masters", "bond0\n")
	h.task(2, "kthreadd", 0x00200000, "0-7")
	h.task(16, "ksoftirqd/4", 0x00200000|0x04000000, "4")
	h.task(17, "kcompactd0", 0x00200000, "0-7")
	h.task(18, "irq/25-virtio0", 0x00200000, "4")
	h.task(19, "bound", 0x00200000, "5")
	h.task(400, "a) b", 0, "0-7")
	return h
}

func (h *fakeHost) put(name, text string) { h.files[name] = &fstest.MapFile{Data: []byte(text)} }

func (h *fakeHost) irq(n, list, actions string) {
	h.put("proc/irq/"+n+"/smp_affinity_list", list+"\n")
	h.put("sys/kernel/irq/"+n+"/actions", actions+"\n")
	h.put("sys/kernel/irq/"+n+"/chip_name", "PCI-MSI\n")
	h.put("sys/kernel/irq/"+n+"/hwirq", n+"\n")
}

func (h *fakeHost) task(pid int, comm string, flags int, cpus string) {
	name := strconv.Itoa(pid)
	h.put("proc/"+name+"/stat", name+" ("+comm+") S 2 0 0 0 -1 "+strconv.Itoa(flags)+" 0 0 0 0 0 0 0 0 20 0 1 0 "+strconv.Itoa(100+pid)+" 0 0 18446744073709551615"+strings.Repeat(" 0", 27)+"\n")
	h.allow(pid, set(h.t, cpus))
}

// allow sets a task's affinity, and its file in procfs.
func (h *fakeHost) allow(pid int, cpus cpuset.Set) {
	h.affinity[pid] = cpus
	h.put("proc/"+strconv.Itoa(pid)+"/status", "Name:\tx\nCpus_allowed:\t"+cpus.Mask(8)+"\nCpus_allowed_list:\t"+cpus.String()+"\n")
}

func (h *fakeHost) get(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.files[name]
	if f == nil {
		return "gone"
	}
	return strings.TrimSpace(string(f.Data))
}

func (h *fakeHost) irqMask(n string) string { return h.get("proc/irq/" + n + "/smp_affinity_list") }

// locked is a file system that serialises readers with writers.
type locked struct {
	h   *fakeHost
	sub fs.FS
}

func (l locked) Open(name string) (fs.File, error) {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return l.sub.Open(name)
}

func (h *fakeHost) dir(top string) Dir {
	sub, err := fs.Sub(h.files, top)
	if err != nil {
		h.t.Fatal(err)
	}
	return Dir{FS: locked{h, sub}, WriteFile: func(name, value string) error { return h.write(path.Join(top, name), value) }}
}

// write writes a value as the kernel does.
func (h *fakeHost) write(name, value string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.files[name]
	if f == nil {
		return fs.ErrNotExist
	}
	list := strings.HasSuffix(name, "_list")
	var mask cpuset.Set
	var err error
	if list {
		mask, err = cpuset.ParseKernel(value, 8)
	} else {
		mask, err = cpuset.ParseMask(value, 8)
	}
	number := path.Base(path.Dir(name))
	switch {
	case errors.Is(err, cpuset.ErrRange):
		return syscall.ERANGE
	case err != nil:
		return syscall.EINVAL
	case list && h.immovable[number] != nil:
		return h.immovable[number]
	case strings.HasPrefix(name, "proc/irq/") && !mask.Overlaps(h.online):
		return syscall.EINVAL
	case strings.HasSuffix(name, "workqueue/cpumask") && mask.IsEmpty():
		return syscall.EINVAL
	}
	h.wrote = append(h.wrote, name+"="+value)
	if h.ignores[number] {
		return nil
	}
	text := mask.Mask(8)
	if list {
		text = mask.String()
	}
	f.Data = []byte(text + "\n")
	return nil
}

// Set implements Affinity.
func (h *fakeHost) Set(pid int, cpus cpuset.Set) error {
	if !cpus.Overlaps(h.online) {
		return syscall.EINVAL
	}
	h.allow(pid, cpus)
	return nil
}

func (h *fakeHost) machine() Machine { return Machine{Possible: cpuset.Range(0, 7), Online: h.online} }

func (h *fakeHost) sources() []Source {
	proc, sys, m := h.dir("proc"), h.dir("sys"), h.machine()
	return []Source{DefaultAffinityOf(proc, m), IRQs(proc, sys), ReceiveQueues(sys, m), WorkqueueOf(sys, m), KThreads(proc, sys, h.Set)}
}

// dump returns all values that can be written.
func (h *fakeHost) dump() map[string]string {
	all := make(map[string]string)
	for name := range h.files {
		if strings.Contains(name, "affinity") || strings.Contains(name, "rps_cpus") || strings.Contains(name, "cpumask") {
			all[name] = h.get(name)
		}
	}
	for pid, cpus := range h.affinity {
		all["affinity of "+strconv.Itoa(pid)] = cpus.String()
	}
	return all
}

// rig is a Tuner with a fake host.
type rig struct {
	*fakeHost
	*Tuner
	log *bytes.Buffer
	dir string
}

func undoIn(dir string) Undo {
	return Undo{File: filepath.Join(dir, "state", "host.json"), Mark: filepath.Join(dir, "run", "host.mark"), BootID: "boot-1"}
}

func newRig(t *testing.T) *rig {
	r := &rig{fakeHost: newFake(t), log: new(bytes.Buffer), dir: t.TempDir()}
	r.restart()
	return r
}

// restart replaces the Tuner, as after a crash.
func (r *rig) restart(more ...Source) {
	r.Tuner = New(Options{Sources: append(r.sources(), more...), Undo: undoIn(r.dir), Log: slog.New(slog.NewTextHandler(r.log, nil))})
}

// tune sets the desired state and makes a pass.
func (r *rig) tune(w Desired) *View {
	r.Tuner.Set(w, r.machine(), cpuset.Range(4, 7))
	r.pass(r.t.(*testing.T).Context())
	return r.View()
}

// fakeBalancer answers like irqbalance, which reports a new list after its next scan.
type fakeBalancer struct {
	mu        sync.Mutex
	banned    cpuset.Set
	requested string
	received  []string
}

func (b *fakeBalancer) scan() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.banned, _ = cpuset.Parse(b.requested)
}

func (b *fakeBalancer) serve(t testing.TB, name string) (stop func()) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", name)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 500)
			n, _ := c.Read(buf)
			b.mu.Lock()
			message := string(buf[:n])
			b.received = append(b.received, message)
			if list, ok := strings.CutPrefix(message, "settings cpus "); ok {
				if b.requested = list; list == "NULL" {
					b.requested = ""
				}
			}
			if message == "setup" {
				_, _ = c.Write([]byte("SLEEP 10 BANNED " + b.banned.Mask(32)))
			}
			b.mu.Unlock()
			_ = c.Close()
		}
	}()
	return func() { _ = l.Close() }
}

// setBanned sets the CPUs that the configuration bans.
func (b *fakeBalancer) setBanned(banned cpuset.Set) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.banned = banned
}
