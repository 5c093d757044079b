//go:build guest

package daemon_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// quieting takes exclusive CPUs out of the shared pool, and delays optional writes by an hour.
var quieting = strings.NewReplacer("cpus: 2-3", "cpus: 2-7", "cpus: 4-7", "from: shared\n  floor: 2").Replace(hourly) + "quiet: 1h\n"

// TestQuiet checks that an owner that ends moves no container, and that the next owner gets its CPUs without moves. After the quiet period,
// containers of the shared pool get these CPUs. The resync is an hour away.
func TestQuiet(t *testing.T) {
	n := newNode(t)
	r := n.withoutKubelet()
	n.startDaemon(quieting)
	n.nriConnected()
	shared := r.mustStart(500, "default", nil)
	on := func(p pod, count int) (cpus cpuset.Set) {
		t.Helper()
		n.eventually(fmt.Sprintf("%s has %d CPUs", p.name, count), func() error {
			st, err := n.fs.Read(p.path)
			if cpus = st.Effective; err == nil && cpus.Len() != count {
				err = fmt.Errorf("it has %s", cpus)
			}
			return errors.Join(err, r.allowed(p, cpus.String()))
		})
		return cpus
	}
	waits := func(cpus int) {
		t.Helper()
		n.eventually(fmt.Sprintf("%d CPUs wait", cpus), func() error {
			_, body, err := n.get("/metrics")
			if want := fmt.Sprintf("cpupoold_quiet_waiting{kind=\"cpus\"} %d\n", cpus); err == nil && !strings.Contains(body, want) {
				err = errors.New("not in the metrics")
			}
			return err
		})
		n.quiet()
	}
	stays := r.mustStart(1000, "default", nil)
	on(stays, 1)
	goes := r.mustStart(2000, "default", nil)
	its := on(goes, 2)
	on(shared, 3)
	waits(0)
	before := len(n.writesTo(shared.path))

	for range 2 {
		r.removePod(goes)
		waits(2)
		if resting := n.plan().Plan.Resting; !resting.Equal(its) {
			t.Errorf("CPUs %s rest; want %s, which the owner had", resting, its)
		}
		on(shared, 3)
		goes = r.mustStart(2000, "default", nil)
		if cpus := on(goes, 2); !cpus.Equal(its) {
			t.Errorf("the next owner has CPUs %s; want %s, which rested", cpus, its)
		}
		waits(0)
	}
	r.removePod(goes)
	waits(2)
	if written := n.writesTo(shared.path)[before:]; len(written) > 0 {
		t.Errorf("writes to the shared container = %v; want none", written)
	}
	n.write(configFile, strings.Replace(quieting, "quiet: 1h", "quiet: 1s", 1))
	n.run("systemctl", "reload", "cpupoold")
	if cpus := on(shared, 5); cpus.Overlaps(on(stays, 1)) {
		t.Errorf("CPUs of the shared container = %s; want no CPU of an owner", cpus)
	}
	waits(0)
}
