package conformance

import (
	"fmt"
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// checkMems checks the requested and the effective nodes. FS does not read the effective nodes
// without a request.
func (b *bench) checkMems(p cgroup.Path, request, effective string) {
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
	b.checkMems(c, "", "")
	b.write(c, cgroup.FileMems, "0-1")
	b.checkMems(c, "0-1", "0-1")
	b.write(p, cgroup.FileMems, "1")
	b.checkMems(c, "0-1", "1") // the part that the parent has
	b.write(c, cgroup.FileMems, "0")
	b.checkMems(c, "0", "1") // no common node: all of the parent's nodes, without an error
	b.write(p, cgroup.FileMems, "0-1")
	b.checkMems(c, "0", "0")
	b.write(c, cgroup.FileMems, " 1 \n")
	b.checkMems(c, "1", "1")
	b.checkCPUs(c, "", b.online()) // the CPUs do not depend on the nodes
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
		{fmt.Sprint(b.k.Nodes().Last() + 1), syscall.EINVAL}, // not a possible node
		{fmt.Sprintf("0-%d", b.k.Nodes().Last()+1), syscall.EINVAL},
		{"99999", syscall.ERANGE},
	} {
		b.refused(p, cgroup.FileMems, c.value, c.want)
	}
	b.refused(p, "cpuset.mems.effective", "1", syscall.EINVAL)
	b.checkMems(p, "1", "1")
}

func (b *bench) clearingMems() {
	p := b.child(b.top, "c")
	b.write(p, cgroup.FileMems, "1")
	b.writeRaw(p, cgroup.FileMems, "") // zero bytes: no effect, no error
	b.checkMems(p, "1", "1")
	b.write(p, cgroup.FileMems, "\n") // the cgroup has no task
	b.checkMems(p, "", "")
	b.write(p, cgroup.FileMems, "1")
	b.task(p)
	if b.k.ClearsPopulated() {
		b.write(p, cgroup.FileMems, "\n")
		b.checkMems(p, "", "")
		return
	}
	b.refused(p, cgroup.FileMems, "\n", syscall.ENOSPC)
	b.checkMems(p, "1", "1")
	b.write(p, cgroup.FileMems, b.k.Nodes().String()) // the equivalent for a cgroup with tasks
	b.checkMems(p, b.k.Nodes().String(), b.k.Nodes().String())
}
