//go:build guest

package daemon_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/observer"
	"github.com/cpupoold/cpupoold/test/vm/internal/soakstate"
)

var (
	kills     = flag.Int("kills", 0, "kills of the daemon in TestKills; 0 skips it")
	killsKind = flag.String("kills.kind", "fixed", "pool of exclusive CPUs in TestKills: fixed, from-shared or partitions")
	killsDone = flag.Int("kills.done", 0, "kills of earlier runs of TestKills, which this run does not repeat")
	killsTo   = flag.String("kills.to", "", "TCP address to which TestKills writes its progress after each kill")
	killsTime = flag.Duration("kills.time", 0, "time after which TestKills begins no further kill; 0 means no limit")
)

// killed is a node with containers that start and stop while the daemon is killed. An observer
// watches their CPUs.
type killed struct {
	*runtimeNode
	observer *observer.Observer
	churn    *starter
	owner    *resident
	shared   *resident
	nri      chan struct{} // Receives a value when the daemon logs that NRI is connected.
	ended    atomic.Int64  // When the test ended the last connection, in nanoseconds.
	losses   atomic.Int64  // Connections that the log reports as lost.
	rand     *rand.Rand    // of one kill
	actions  []string      // before the next kill, for evidence
	took     map[string]time.Duration
}

// TestKills kills the daemon again and again while containers start and stop: at random
// moments, during creations and after some of its writes. Before some kills it restarts the
// runtime, reloads systemd, or writes to the cpuset of a container. Each second kill ends a
// daemon that has just started, before its NRI is connected. The observer measures how
// long a thread of another container can run on exclusive CPUs. The test fails on an overlap
// that docs/explanation/isolation.md does not allow.
func TestKills(t *testing.T) {
	if *kills == 0 {
		t.Skip("minutes: make soak")
	}
	report, began := progress(t), time.Now()
	n := newNode(t)
	k := &killed{runtimeNode: n.withoutKubelet(), nri: make(chan struct{}, 1000), took: make(map[string]time.Duration)}
	k.limitStops()
	o, err := observer.Start("/sys/fs/cgroup/kubepods.slice")
	if err != nil {
		t.Fatal(err)
	}
	k.observer = o
	k.followLog()
	n.startDaemon(killsConfig(n, *killsKind))
	k.Cleanup(func() { // partitions end with restore
		n.stopDaemon()
		n.run("cpupoold", "restore")
	})
	k.awaitNRI()
	k.churn = startChurn(k)
	k.Cleanup(k.churn.stop)
	k.owner, k.shared = k.churn.resident(2000), k.churn.resident(500)
	seen, made := observer.Report{}, 0
	for starting := false; made < *kills && (starting || *killsTime == 0 || time.Since(began) < *killsTime); {
		i := *killsDone + made
		k.rand = rand.New(rand.NewPCG(*seed, uint64(i)))
		pid := k.one(starting)
		made++
		if starting = !starting && made < *kills; starting {
			k.act("start of the next daemon", func() { k.awaitPID(pid) })
		} else {
			k.act("restart of the daemon", k.awaitNRI)
			k.act("end of overlaps", k.noOverlap)
		}
		if seen, err = o.Report(); err != nil {
			t.Fatal(err)
		}
		report(soakstate.Progress{Kills: made, Report: seen})
		if excess := seen.Excess(); len(excess) > 0 {
			t.Errorf("kill %d with seed %d, after %v: %s\n%s", i+1, *seed, k.actions, strings.Join(excess, "\n"), n.evidence())
			break
		}
	}
	k.churn.stop()
	if seen, err = o.Stop(); err != nil {
		t.Fatal(err)
	}
	report(soakstate.Progress{Kills: made, Report: seen})
	if excess := seen.Excess(); len(excess) > 0 {
		t.Errorf("seed %d: %s", *seed, strings.Join(excess, "\n"))
	}
	t.Logf("%s: %d kills, %d losses of NRI, %d containers started, %d creations failed; seconds: %v", *killsKind, made, k.losses.Load(), k.churn.started.Load(), k.churn.failed.Load(), k.took)
}

// killsConfig returns the configuration of a kind of pool, with the default resync. The shared
// pool never has one or two CPUs, as owners have: an owner that waits in it for free CPUs
// cannot be confused with one on its own CPUs.
func killsConfig(n *node, kind string) string {
	config := strings.NewReplacer("resyncPeriod: 5m\n", "", "cpus: 0-1\n", "cpus: \"0\"\n", "cpus: 2-3\n", "cpus: 1-3\n").Replace(pools)
	switch kind {
	case "fixed":
		return config
	case "from-shared":
		return strings.Replace(config, "cpus: 1-3\nguaranteed:\n  cpus: 4-7\n", "cpus: 1-7\nguaranteed:\n  from: shared\n  floor: 3\n", 1)
	case "partitions":
		n.needsPartitions()
		return strings.Replace(config, "cpus: 4-7\n", "cpus: 4-7\n  isolation: partition\n", 1)
	}
	n.Fatalf("-kills.kind=%s: want fixed, from-shared or partitions", kind)
	return ""
}

// progress returns a function that writes the progress to the host.
func progress(t *testing.T) func(soakstate.Progress) {
	if *killsTo == "" {
		return func(soakstate.Progress) {}
	}
	conn, err := net.Dial("tcp", *killsTo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // a write that fails ends the test before
	lines := json.NewEncoder(conn)
	return func(p soakstate.Progress) {
		if err := lines.Encode(p); err != nil {
			t.Fatalf("write progress to the host: %v", err)
		}
	}
}

// one makes one kill, and returns the PID of the killed daemon. A daemon that is starting gets no
// other disturbance: a restart of the runtime would wait for it.
func (k *killed) one(starting bool) int {
	k.Helper()
	disturbance := k.rand.IntN(4)
	if !starting {
		k.actions = nil
		switch disturbance {
		case 0:
			k.act("restart of the runtime", k.restartRuntime)
		case 1:
			k.act("daemon-reload", func() { k.observer.Reload(func() { k.run("systemctl", "daemon-reload") }) })
		case 2:
			k.act("external write", k.writeCPUs)
		}
	}
	pid := k.mainPID()
	switch k.rand.IntN(3) {
	case 0:
		k.act("kill at random", func() {
			time.Sleep(time.Duration(k.rand.IntN(2000)) * time.Millisecond)
			k.kill(pid)
		})
	case 1:
		k.act("kill during a creation", func() {
			select {
			case <-k.churn.creating:
			case <-time.After(nodeTimeout):
				k.Fatalf("no container was created\n%s", k.evidence())
			}
			time.Sleep(time.Duration(k.rand.IntN(400)) * time.Millisecond)
			k.kill(pid)
		})
	default:
		k.act("kill after writes", func() { k.killAfterWrites(pid) })
	}
	return pid
}

// act does something, and records its name and duration.
func (k *killed) act(name string, do func()) {
	began := time.Now()
	k.actions = append(k.actions, began.UTC().Format("15:04:05.000 ")+name)
	do()
	k.took[name] += time.Since(began)
}

// mainPID returns the PID of the daemon, or fails the test.
func (k *killed) mainPID() int {
	k.Helper()
	pids := k.pids()
	if len(pids) == 0 {
		k.Fatalf("no daemon runs\n%s", k.evidence())
	}
	return slices.Min(pids) // children, such as "runc --version", are younger
}

// awaitPID waits until a daemon runs instead of the killed one.
func (k *killed) awaitPID(dead int) {
	k.Helper()
	k.eventually("another daemon", func() error {
		if pids := k.pids(); len(pids) == 0 || slices.Contains(pids, dead) {
			return fmt.Errorf("processes of the unit: %v", pids)
		}
		return nil
	})
}

// pids returns the processes of the daemon's unit. It reads the cgroup, because a systemctl takes
// half a second of the emulated node. Between two daemons the unit has no cgroup.
func (k *killed) pids() (all []int) {
	k.Helper()
	text, err := os.ReadFile("/sys/fs/cgroup/system.slice/cpupoold.service/cgroup.procs")
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
		k.Fatal(err)
	}
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			k.Fatal(err)
		}
		all = append(all, pid)
	}
	return all
}

// followLog reads the daemon's log until the end of the test, and reports to the observer whether a daemon
// replies. One process that waits takes less of the emulated node than requests to the daemon in a loop, and
// reports the moment. The runtime closes the connection to a daemon that replies too late.
func (k *killed) followLog() {
	k.Helper()
	log := exec.CommandContext(k.Context(), "journalctl", "-f", "-n", "all", "-S", "@"+strconv.FormatInt(time.Now().Unix(), 10), "-o", "cat", "-u", "cpupoold")
	out, err := log.StdoutPipe()
	if err != nil {
		k.Fatal(err)
	}
	if err := log.Start(); err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() { _ = log.Wait() }) // killed by the end of the test's context
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var line struct {
				Time time.Time
				Msg  string
			}
			switch err := json.Unmarshal(lines.Bytes(), &line); {
			case err != nil: // systemd's
			case line.Time.UnixNano() < k.ended.Load(): // the journal of a busy node is late
			case strings.HasPrefix(line.Msg, "NRI is lost: "):
				k.observer.Absent()
				k.losses.Add(1)
			case strings.HasPrefix(line.Msg, "NRI is connected: "):
				k.observer.Present()
				k.nri <- struct{}{}
			}
		}
	}()
}

// awaitNRI waits until the daemon logs that NRI is connected.
func (k *killed) awaitNRI() {
	k.Helper()
	select {
	case <-k.nri:
	case <-time.After(nodeTimeout):
		k.Fatalf("NRI is not connected\n%s", k.evidence())
	}
}

// absent reports to the observer that no daemon replies. The next record is of the next connection.
func (k *killed) absent() {
	k.ended.Store(time.Now().UnixNano())
	k.observer.Absent()
	for len(k.nri) > 0 {
		<-k.nri
	}
}

// kill kills the daemon; systemd starts another one.
func (k *killed) kill(pid int) {
	k.Helper()
	k.absent()
	if err := kill(pid); err != nil {
		k.Fatal(err)
	}
}

// killAfterWrites kills the daemon after up to four of its own writes to cgroups, or after five
// seconds with fewer writes.
func (k *killed) killAfterWrites(pid int) {
	k.Helper()
	death := k.diesAfter(1 + k.rand.IntN(4))
	for began := time.Now(); !death.isDead() && time.Since(began) < 5*time.Second; {
		time.Sleep(10 * time.Millisecond)
	}
	_, dead, err := death.end()
	if err != nil {
		k.Fatal(err)
	}
	if dead {
		k.absent()
	} else {
		k.kill(pid)
	}
}

// limitStops limits the time in which systemd waits for the end of the runtime. A restart of CRI-O
// waits for conmon of a container in creation, whose scope waits for the end of the restart (CRI-O 1.34.0,
// internal/config/cgmgr/systemd_linux.go). systemd would end this after 90 seconds.
func (k *killed) limitStops() {
	k.Helper()
	k.write("/run/systemd/system/"+k.image.Unit+".service.d/soak.conf", "[Service]\nTimeoutStopSec=5s\n")
	k.run("systemctl", "daemon-reload")
}

// restartRuntime restarts the runtime, and waits until the daemon is connected again.
func (k *killed) restartRuntime() {
	k.Helper()
	k.absent()
	k.run("systemctl", "restart", k.image.Unit)
	k.awaitNRI()
}

// writeCPUs gives all CPUs to a container, or CPUs of another pool to an owner.
func (k *killed) writeCPUs() {
	k.Helper()
	victim, cpus := k.shared, "0-7"
	if k.rand.IntN(2) == 0 {
		victim, cpus = k.owner, "0"
	}
	k.observer.Writes(victim.scope)
	if err := k.fs.Write(victim.path, cgroup.FileCPUs, cpus); err != nil {
		k.Fatal(err)
	}
}

// noOverlap waits until the overlaps that began while no daemon replied have ended.
func (k *killed) noOverlap() {
	k.Helper()
	k.eventually("no overlap", func() error {
		if open := k.observer.Open(); len(open) > 0 {
			return errors.New(strings.Join(open, "; "))
		}
		_, err := k.observer.Report()
		return err
	})
}
