package conformance

import (
	"fmt"
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

func (b *bench) controllers() {
	bare := b.mkdir(b.top.Join("bare"))
	for _, file := range []string{cgroup.FileCPUs, cgroup.FileWeight, cgroup.FileMax} {
		b.refused(bare, file, "1", cgroup.ErrNoController)
	}
	if s := b.state(bare); s.HasCPUSet || s.HasCPU || s.Effective.String() != b.online() || s.Quota != -1 {
		b.Errorf("cgroup without controllers: %+v", s)
	}
	b.write(b.top, "cgroup.subtree_control", "+cpuset")
	if s := b.state(bare); !s.HasCPUSet || s.HasCPU || !s.CPUs.IsEmpty() {
		b.Errorf("cgroup with cpuset alone: %+v", s)
	}
	b.refused(bare, cgroup.FileWeight, "1", cgroup.ErrNoController)
	// Without cpuset, the CPUs of the nearest ancestor with cpuset apply.
	b.write(bare, cgroup.FileCPUs, "1")
	b.checkCPUs(b.mkdir(bare.Join("below")), "", "1")
	names, err := b.fs.ReadFile(bare, "cgroup.controllers")
	if err != nil || string(names) != "cpuset\n" {
		b.Errorf("cgroup.controllers of %s is %q, %v; want cpuset", bare, names, err)
	}
}

func (b *bench) removedCgroup() {
	p := b.child(b.top, "short-lived")
	b.write(p, cgroup.FileCPUs, "1")
	if err := b.k.Rmdir(string(p)); err != nil {
		b.Fatal(err)
	}
	b.refused(p, cgroup.FileCPUs, "2", cgroup.ErrGone)
	if _, err := b.fs.Read(p); !isGone(err) {
		b.Errorf("Read of a removed cgroup = %v; want ErrGone", err)
	}
	if _, err := b.fs.Children(p); !isGone(err) {
		b.Errorf("Children of a removed cgroup = %v; want ErrGone", err)
	}
}

func (b *bench) effective() {
	b.write(b.top, cgroup.FileCPUs, "0-2")
	p := b.child(b.top, "c")
	b.task(p)
	for _, c := range []struct{ request, effective string }{
		{"1", "1"},
		{"1-2", "1-2"},
		{"2-3", "2"}, // the part that the parent has
		{"3", "0-2"}, // no common CPU: all of the parent's CPUs, without an error
		{"0-3", "0-2"},
	} {
		b.write(p, cgroup.FileCPUs, c.request)
		b.checkCPUs(p, c.request, c.effective)
		if s := b.state(p); s.ParentEffective.String() != "0-2" {
			b.Errorf("parent's effective set: %s, want 0-2", s.ParentEffective)
		}
	}
}

func (b *bench) inheritance() {
	p := b.child(b.top, "p")
	c := b.child(p, "c")
	g := b.child(c, "g")
	b.task(g)
	b.checkCPUs(g, "", b.online())
	b.write(p, cgroup.FileCPUs, "1-3")
	b.checkCPUs(g, "", "1-3")
	b.write(c, cgroup.FileCPUs, "1-2")
	b.checkCPUs(g, "", "1-2")
	b.write(g, cgroup.FileCPUs, "2-3")
	b.checkCPUs(g, "2-3", "2")
	b.write(p, cgroup.FileCPUs, "3") // c requests no CPU of it
	b.checkCPUs(c, "1-2", "3")
	b.checkCPUs(g, "2-3", "3")
	b.write(p, cgroup.FileCPUs, "0-3") // the requests are unchanged
	b.checkCPUs(c, "1-2", "1-2")
	b.checkCPUs(g, "2-3", "2")
}

func (b *bench) syntax() {
	p := b.child(b.top, "c")
	last := b.k.Possible().Last()
	for value, want := range map[string]string{
		"0,2-3":     "0,2-3",
		" 1 , 2 \n": "1-2",
		"0-3:1/2":   "0,2",
		"all":       b.k.Possible().String(),
		"N":         fmt.Sprint(last),
		"3,1,1-2,":  "1-3",
		"1\n":       "1",
	} {
		b.write(p, cgroup.FileCPUs, value)
		if s := b.state(p); s.CPUs.String() != want {
			b.Errorf("cpuset.cpus after %q: %q, want %q", value, s.CPUs, want)
		}
	}
}

func (b *bench) cpusetErrors() {
	p := b.child(b.top, "c")
	b.write(p, cgroup.FileCPUs, "1")
	beyond := b.k.Possible().Last() + 1
	for _, c := range []struct {
		value string
		want  error
	}{
		{"x", syscall.EINVAL},
		{"2-1", syscall.EINVAL},
		{"1-", syscall.EINVAL},
		{"-1", syscall.EINVAL},
		{fmt.Sprint(beyond), syscall.ERANGE},
		{fmt.Sprintf("0-%d", beyond), syscall.ERANGE},
		{"99999", syscall.ERANGE},
	} {
		b.refused(p, cgroup.FileCPUs, c.value, c.want)
	}
	b.refused(p, "cpuset.cpus.effective", "1", syscall.EINVAL)
	b.checkCPUs(p, "1", "1")
}

func (b *bench) clearing() {
	p := b.child(b.top, "c")
	b.write(p, cgroup.FileCPUs, "1")
	b.writeRaw(p, cgroup.FileCPUs, "") // zero bytes: no effect, no error
	b.checkCPUs(p, "1", "1")
	b.write(p, cgroup.FileCPUs, "\n") // the cgroup has no task
	b.checkCPUs(p, "", b.online())
	b.write(p, cgroup.FileCPUs, "1")
	below := b.child(p, "below")
	b.task(below)
	if b.k.ClearsPopulated() {
		b.write(p, cgroup.FileCPUs, "\n")
		b.checkCPUs(p, "", b.online())
		return
	}
	b.refused(p, cgroup.FileCPUs, "\n", syscall.ENOSPC)
	b.checkCPUs(p, "1", "1")
}

func (b *bench) disabling() {
	p := b.child(b.top, "c")
	b.task(p)
	b.write(p, cgroup.FileCPUs, "1")
	b.write(p, cgroup.FileWeight, "7")
	b.write(p, "cgroup.subtree_control", "+cpuset")
	b.refused(b.top, "cgroup.subtree_control", "-cpuset", syscall.EBUSY)
	b.write(p, "cgroup.subtree_control", "-cpuset")
	b.write(b.top, "cgroup.subtree_control", "-cpuset -cpu")
	if s := b.state(p); s.HasCPUSet || s.HasCPU || s.Effective.String() != b.online() {
		b.Errorf("after the controllers were disabled: %+v", s)
	}
	b.write(b.top, "cgroup.subtree_control", "+cpuset +cpu")
	b.checkCPUs(p, "", b.online()) // the values do not return
	if s := b.state(p); s.Weight != 100 {
		b.Errorf("cpu.weight is %d, want the default of 100", s.Weight)
	}
}

func (b *bench) hotplug() {
	p := b.child(b.top, "c")
	b.task(p)
	b.write(p, cgroup.FileCPUs, "2-3")
	b.k.SetOnline(b, 3, false)
	b.checkCPUs(p, "2-3", "2")
	b.write(p, cgroup.FileCPUs, "1,3") // an offline CPU is a valid request
	b.checkCPUs(p, "1,3", "1")
	b.write(p, cgroup.FileCPUs, "3")
	b.checkCPUs(p, "3", b.online())
	b.k.SetOnline(b, 3, true)
	b.checkCPUs(p, "3", "3")
}

func (b *bench) populated() {
	p := b.child(b.top, "c")
	below := b.child(p, "below")
	if b.state(p).Populated {
		b.Error("populated without a task")
	}
	stop := b.task(below)
	if !b.state(b.top).Populated || !b.state(below).Populated {
		b.Error("not populated with a task below")
	}
	if err := b.k.Rmdir(string(below)); !isErrno(err, syscall.EBUSY) {
		b.Errorf("rmdir of a cgroup with a task = %v; want EBUSY", err)
	}
	if err := b.k.Rmdir(string(p)); !isErrno(err, syscall.EBUSY) {
		b.Errorf("rmdir of a cgroup with a child = %v; want EBUSY", err)
	}
	stop()
	if b.state(b.top).Populated {
		b.Error("populated after the end of the task")
	}
}
