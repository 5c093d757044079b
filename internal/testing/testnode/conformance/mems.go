package conformance

import (
	"fmt"
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// binds checks the nodes asked for and those that came of it; the latter are not
// read for a cgroup that asks for none.
func (b *bench) binds(p cgroup.Path, request, effective string) {
	b.Helper()
	s := b.state(p)
	if s.Mems.String() != request || s.EffectiveMems.String() != effective {
		b.Errorf("%s: nodes %q, effective %q; want %q, %q", p, s.Mems, s.EffectiveMems, request, effective)
	}
}

func (b *bench) mems() {
	if got := b.state("").EffectiveMems; !got.Equal(b.k.Nodes()) {
		b.Errorf("nodes of the root: %q, want %q", got, b.k.Nodes())
	}
	p := b.child(b.top, "p")
	c := b.child(p, "c")
	b.task(c)
	b.binds(c, "", "")
	b.write(c, cgroup.FileMems, "0-1")
	b.binds(c, "0-1", "0-1")
	b.write(p, cgroup.FileMems, "1")
	b.binds(c, "0-1", "1") // as far as the parent has it
	b.write(c, cgroup.FileMems, "0")
	b.binds(c, "0", "1") // nothing of it: all of the parent's, without an error
	b.write(p, cgroup.FileMems, "0-1")
	b.binds(c, "0", "0")
	b.write(c, cgroup.FileMems, " 1 \n")
	b.binds(c, "1", "1")
	b.runs(c, "", b.online()) // and the CPUs are their own matter
}

func (b *bench) memsErrors() {
	p := b.child(b.top, "c")
	b.write(p, cgroup.FileMems, "1")
	for _, c := range []struct {
		value string
		want  error
	}{
		{"x", syscall.EINVAL},
		{"1-0", syscall.EINVAL},
		{"-1", syscall.EINVAL},
		{fmt.Sprint(b.k.Nodes().Last() + 1), syscall.EINVAL}, // not possible
		{fmt.Sprintf("0-%d", b.k.Nodes().Last()+1), syscall.EINVAL},
		{"99999", syscall.ERANGE},
	} {
		b.refused(p, cgroup.FileMems, c.value, c.want)
	}
	b.refused(p, "cpuset.mems.effective", "1", syscall.EINVAL)
	b.binds(p, "1", "1")
}

func (b *bench) clearingMems() {
	p := b.child(b.top, "c")
	b.write(p, cgroup.FileMems, "1")
	b.writeRaw(p, cgroup.FileMems, "") // no bytes: no effect, no error
	b.binds(p, "1", "1")
	b.write(p, cgroup.FileMems, "\n") // nobody is in it
	b.binds(p, "", "")
	b.write(p, cgroup.FileMems, "1")
	b.task(p)
	if b.k.ClearsPopulated() {
		b.write(p, cgroup.FileMems, "\n")
		b.binds(p, "", "")
		return
	}
	b.refused(p, cgroup.FileMems, "\n", syscall.ENOSPC)
	b.binds(p, "1", "1")
	b.write(p, cgroup.FileMems, b.k.Nodes().String()) // the way to undo it
	b.binds(p, b.k.Nodes().String(), b.k.Nodes().String())
}
