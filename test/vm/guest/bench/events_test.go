//go:build guest

package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const (
	eventSamples = 12
	// eventPace is how often something happens: the passes that follow an event are over by then.
	eventPace = time.Second
	// elsewhere is what somebody else writes to a container of the shared pool.
	elsewhere = "0-3"
)

// scales are the numbers of containers at which events are measured.
func scales() []int { return []int{16, 100, pods * containersEach} }

// measureEvents measures what an event takes while there are so many containers that it does not concern. Samples of a container that
// begins, in the shared pool and on a CPU of its own, and ends:
//
//   - create-ns: the runtime's answer to CreateContainer, for which it asks the daemon;
//   - mkdir-ns: from the creation of its cgroup until it is verified to be in its pool; most of it is the OCI runtime's own work;
//
// of a write of somebody else to one of the shared pool, repair-ns until it is verified that it has been undone; and of all of them what the
// daemon does until all is quiet again, with the whole passes that follow: cpu-ns, and reads and writes, its system calls (/proc/PID/io),
// which are the same on any machine.
func measureEvents(t *testing.T, m *maker, containers int, sharers []cgroup.Path) {
	t.Helper()
	quiet(t)
	name := fmt.Sprintf("Event/%dcontainers/", containers)
	for _, k := range []struct {
		name string
		kind
		pool cpuset.Set
	}{
		{"shared", kind{namespace: "default"}, shared()},
		{"own", kind{namespace: "default", cpus: 1}, guaranteed()},
	} {
		before := doings(t)
		m.births(t, k.kind, k.pool, eventSamples, func(b birth) {
			<-time.After(eventPace)
			now := doings(t)
			sample(t, name+k.name, append(now.since(before), b.create.Nanoseconds(), "create-ns", b.mkdir.Nanoseconds(), "mkdir-ns")...)
			before = now
		})
	}
	for i := range eventSamples {
		before := doings(t)
		took := repair(t, sharers[i%len(sharers)], elsewhere) // none so often that the daemon would leave it to who writes
		<-time.After(eventPace)
		sample(t, name+"repair", append(doings(t).since(before), took.Nanoseconds(), "repair-ns")...)
	}
}

// done is what the daemon has done so far.
type done struct {
	cpu           time.Duration
	reads, writes int64
}

func doings(t *testing.T) done {
	t.Helper()
	io := "/proc/" + daemonPID(t) + "/io"
	return done{cpuTime(t), field(t, io, "syscr:"), field(t, io, "syscw:")}
}

// since are values of a sample.
func (d done) since(before done) []any {
	return []any{(d.cpu - before.cpu).Nanoseconds(), "cpu-ns", d.reads - before.reads, "reads", d.writes - before.writes, "writes"}
}
