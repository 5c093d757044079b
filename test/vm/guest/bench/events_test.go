//go:build guest

package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/samples"
)

const (
	eventSamples = 12
	// eventPace is the interval between events: the passes after an event end within it.
	eventPace = time.Second
	// elsewhere is the value that another process writes to a container of the shared pool.
	elsewhere = "0-3"
)

// scales are the numbers of containers at which events are measured.
func scales() []int { return []int{16, 100, pods * containersEach} }

// measureEvents measures the cost of an event while that many other containers run. Samples of a container that begins and ends, in the
// shared pool and with exclusive CPUs:
//
//   - create-ns: the runtime's answer to CreateContainer, which includes the daemon's NRI reply;
//   - mkdir-ns: from the creation of its cgroup until the kernel has it in its pool, including the OCI runtime's own work.
//
// For a write by another process to a shared container, repair-ns is the time until the kernel has the earlier value. For all events, the
// samples contain the daemon's work until it is idle again, including the full passes that follow. That work is cpu-ns, and reads and
// writes: its system calls (/proc/PID/io), which are the same on any machine.
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
		m.placements(t, k.kind, k.pool, eventSamples, func(b placement) {
			<-time.After(eventPace)
			now := doings(t)
			sample(t, name+k.name, append(now.since(before), b.create.Nanoseconds(), "create-ns", b.mkdir.Nanoseconds(), "mkdir-ns")...)
			before = now
		})
	}
	for i := range eventSamples {
		before := doings(t)
		took := repair(t, sharers[i%len(sharers)], elsewhere) // rarely enough to cause no write conflict
		<-time.After(eventPace)
		sample(t, name+"repair", append(doings(t).since(before), took.Nanoseconds(), "repair-ns")...)
	}
}

// done holds the daemon's counters so far.
type done struct {
	cpu           time.Duration
	reads, writes int64
}

func doings(t *testing.T) done {
	t.Helper()
	io := "/proc/" + daemonPID(t) + "/io"
	return done{cpuTime(t), samples.Field(t, io, "syscr:"), samples.Field(t, io, "syscw:")}
}

// since are values of a sample.
func (d done) since(before done) []any {
	return []any{(d.cpu - before.cpu).Nanoseconds(), "cpu-ns", d.reads - before.reads, "reads", d.writes - before.writes, "writes"}
}
