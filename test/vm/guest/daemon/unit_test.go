//go:build guest

package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

const (
	address = "http://127.0.0.1:9466"
	journal = "/var/lib/cpupoold/journal.json"
)

// property is a property of the daemon's unit.
func (n *node) property(name string) string {
	n.Helper()
	return strings.TrimSpace(n.run("systemctl", "show", "-P", name, "cpupoold"))
}

// becomes waits until a property of the unit has a value.
func (n *node) becomes(name, value string) {
	n.Helper()
	n.eventually(name+" of the unit", func() error {
		if got := n.property(name); got != value {
			return fmt.Errorf("it is %q; want %q", got, value)
		}
		return nil
	})
}

// systemdLog are the last lines that systemd itself has logged about the unit.
func (n *node) systemdLog(lines int) string {
	n.Helper()
	n.run("journalctl", "--sync")
	return n.run("journalctl", "--no-pager", "-o", "cat", "-n", strconv.Itoa(lines), "_PID=1", "UNIT=cpupoold.service")
}

// endedWell checks that the unit has just been stopped and that the daemon has ended without an error and without a signal to kill it. The
// test cannot use the unit's properties, because systemd may unload an unused unit.
func (n *node) endedWell() {
	n.Helper()
	if log := n.systemdLog(4); !strings.Contains(log, "Deactivated successfully") {
		n.Errorf("systemd's log of the stop lacks a clean end:\n%s", log)
	}
}

// get asks the daemon over HTTP and returns the status, with the body.
func (n *node) get(path string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
	if err != nil {
		return 0, "", err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// answers waits until a path answers with a status.
func (n *node) answers(path string, want int) {
	n.Helper()
	n.eventually(path, func() error {
		got, body, err := n.get(path)
		if err == nil && got != want {
			err = fmt.Errorf("status %d; want %d: %s", got, want, body)
		}
		return err
	})
}

// threePods makes one pod of each pool, and returns the values that each must have once the daemon is
// ready.
func (r *runtimeNode) threePods() (check func(when string)) {
	r.Helper()
	management := r.mustStart(100, "kube-system", manifest.Management(map[string]string{"app": "512"}))
	shared := r.mustStart(500, "default", nil)
	exclusive := r.mustStart(2000, "default", nil)
	var own string
	return func(when string) {
		r.Helper()
		st, err := r.fs.Read(exclusive.path)
		if err == nil && own == "" {
			if own = st.Effective.String(); st.Effective.Len() != 2 || !st.Effective.IsSubsetOf(guaranteed()) {
				err = fmt.Errorf("%s runs on %s; want two guaranteed CPUs", exclusive.name, own)
			}
		}
		if err = errors.Join(err, r.runsOn(management, "0-1", 59), r.runsOn(shared, "2-3", 0), r.runsOn(exclusive, own, 0)); err != nil {
			r.Errorf("%s: %v\n%s", when, err, r.evidence())
		}
	}
}

// TestUnit checks that systemd starts, restarts, reloads and stops the daemon under all restrictions of the
// unit.
func TestUnit(t *testing.T) {
	n := newNode(t)
	r := n.withoutKubelet()
	placed := r.threePods()
	n.startDaemon(pools)
	placed("as soon as systemd calls the unit started")
	n.answers("/healthz", http.StatusOK)
	n.answers("/readyz", http.StatusOK)
	n.hardened()

	n.quiet()
	// Each way of writing, and none of them refused.
	ways := map[string]bool{"file": false, "cri": false, "dbus": false}
	for _, rec := range n.records("wrote") {
		ways[rec["write"].(map[string]any)["via"].(string)] = true
	}
	if d := cmp.Diff(map[string]bool{"file": true, "cri": true, "dbus": true}, ways); d != "" {
		t.Errorf("ways of writing that were seen (-want +got):\n%s", d)
	}
	for _, msg := range []string{"write refused", "not in the desired state", "journal", "notify service manager"} {
		if records := n.records(msg); len(records) > 0 {
			t.Errorf("log records with %q = %v; want none", msg, records)
		}
	}
	for _, rec := range n.records("check") { // other tests cover the output of check in a shell; the unit must add nothing to it
		// This kubelet reserves none, and hostSlices is off.
		if rec["name"] != "kubelet-reserved" && rec["name"] != "host-slices" {
			t.Errorf("finding in the log = %v; want only the known ones", rec)
		}
	}
	if records := n.records("weight formula"); len(records) != 1 || !strings.HasPrefix(records[0]["oci_runtime"].(string), "runc version ") {
		t.Errorf("log of the question for the OCI runtime: %v; want runc's answer", records)
	}

	before, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	n.run("systemctl", "restart", "cpupoold")
	placed("after a restart")
	n.quiet()
	if records := n.records("wrote"); len(records) > 0 {
		t.Errorf("writes of a restart without changes = %v; want none", records)
	}
	if after, err := os.ReadFile(journal); err != nil || string(after) != string(before) {
		t.Errorf("journal after a restart changed, %v:\n%s\nbefore:\n%s", err, after, before)
	}

	const inForce = "configuration in force"
	read := len(n.records(inForce)) // the watch of the file has read it, too
	n.run("systemctl", "reload", "cpupoold")
	n.eventually("configuration read again", func() error {
		if got := len(n.records(inForce)); got != read+1 {
			return fmt.Errorf("%d records after %d", got, read)
		}
		return nil
	})

	began := time.Now()
	n.stopDaemon()
	if took := time.Since(began); took > 20*time.Second { // TimeoutStopSec is 30 s
		t.Errorf("stop took %v; want at most 20 s", took)
	}
	n.endedWell()
	placed("after a stop")
}

// hardened checks systemd's score of the unit.
func (n *node) hardened() {
	n.Helper()
	want := map[string]string{
		"CapabilityBoundingSet":   "cap_dac_override cap_net_admin cap_sys_admin cap_sys_nice",
		"LockPersonality":         "yes",
		"MemoryDenyWriteExecute":  "yes",
		"NoNewPrivileges":         "yes",
		"PrivateDevices":          "yes",
		"PrivateTmp":              "yes",
		"ProtectControlGroups":    "no",
		"ProtectHome":             "yes",
		"ProtectKernelModules":    "yes",
		"ProtectKernelTunables":   "no",
		"ProtectSystem":           "strict",
		"RestrictAddressFamilies": "AF_INET AF_INET6 AF_NETLINK AF_UNIX",
		"RestrictNamespaces":      "yes",
		"SystemCallArchitectures": "native",
		"UMask":                   "0077",
	}
	got := make(map[string]string)
	names := strings.Join(slices.Collect(maps.Keys(want)), ",")
	for line := range strings.Lines(n.run("systemctl", "show", "-p", names, "cpupoold")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		got[name] = value
	}
	if d := cmp.Diff(want, got); d != "" {
		n.Errorf("properties of the unit (-want +got):\n%s", d)
	}
	// Check the values of the running process, not just the file.
	status := n.run("cat", "/proc/"+n.property("MainPID")+"/status")
	for _, line := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "CapBnd:\t0000000000a01002"} {
		if !strings.Contains(status, line+"\n") {
			n.Errorf("status of the process lacks %q:\n%s", line, status)
		}
	}
	// Moving threads back (pkg/cgroup.Gather) needs a capability and a system call of a group
	// that is forbidden otherwise. The test moves another user's process with the restrictions of
	// the unit.
	n.run("systemd-run", "--quiet", "--unit=elsewhere", "--uid=nobody", "sleep", "infinity")
	defer n.run("systemctl", "stop", "elsewhere")
	args := []string{"--quiet", "--wait", "--collect"}
	for line := range strings.Lines(n.run("systemctl", "show", "-p", "CapabilityBoundingSet,SystemCallFilter,SystemCallErrorNumber,NoNewPrivileges", "cpupoold")) {
		args = append(args, "-p", strings.TrimSpace(line))
	}
	pid := strings.TrimSpace(n.run("systemctl", "show", "-p", "MainPID", "--value", "elsewhere"))
	n.run("systemd-run", append(args, "taskset", "-p", "1", pid)...)
	if out := n.run("taskset", "-p", pid); !strings.HasSuffix(strings.TrimSpace(out), " 1") {
		n.Errorf("affinity of a process that the unit may move to CPU 0 = %s; want 1", out)
	}
	n.tunables()
	// docs/how-to/install/systemd.md names the score. It is 0.2 above the score with ProtectKernelTunables=yes; tunables checks the difference.
	out, err := n.try("systemd-analyze", "security", "--no-pager", "--threshold=32", "cpupoold.service")
	_, score, _ := strings.Cut(out, "Overall exposure level")
	n.Logf("exposure level %s", strings.TrimSpace(score))
	if err != nil {
		n.Errorf("systemd-analyze security: %v: %s", err, out)
	}
}

// tunables checks that the daemon cannot write the files that ProtectKernelTunables=yes would protect, except the interrupts that it moves:
// the unit lists the paths by name.
func (n *node) tunables() {
	n.Helper()
	inside := func(script, file string) string {
		n.Helper()
		return strings.TrimSpace(n.run("nsenter", "-t", n.property("MainPID"), "-m", "sh", "-c", script, "sh", file))
	}
	const writable = `if [ ! -e "$1" ]; then echo absent; elif [ -w "$1" ]; then echo yes; else echo no; fi`
	for file, want := range map[string]string{
		"/proc/sys/kernel/core_pattern": "no", "/proc/sysrq-trigger": "no", "/sys/kernel/mm/transparent_hugepage/enabled": "no",
		"/sys/fs/cgroup/cgroup.procs": "yes", "/proc/irq/default_smp_affinity": "yes", "/sys/devices/virtual/workqueue/cpumask": "yes",
	} {
		if got := inside(writable, file); got != want {
			n.Errorf("the daemon can write %s: %s; want %s", file, got, want)
		}
	}
	if got := inside(`head -c 1 "$1" 2>/dev/null | wc -c`, "/proc/kallsyms"); got != "0" {
		n.Errorf("bytes of /proc/kallsyms that the daemon can read = %s; want 0", got)
	}
}

// TestWatchdog checks that the event loop feeds systemd's watchdog without other events, that systemd replaces a daemon that hangs, and
// that its health check fails until then.
func TestWatchdog(t *testing.T) {
	const dropIn = "/run/systemd/system/cpupoold.service.d/watchdog.conf"
	n := newNode(t)
	t.Cleanup(func() {
		if err := os.Remove(dropIn); err != nil {
			t.Error(err)
		}
		n.run("systemctl", "daemon-reload")
	})
	// The pause before the restart leaves time to ask for the health.
	n.write(dropIn, "[Service]\nWatchdogSec=12s\nRestartSec=100ms\n")
	n.run("systemctl", "daemon-reload")
	r := n.withoutKubelet()
	placed := r.threePods()
	n.startDaemon(pools)
	placed("start")
	n.quiet()
	pid := n.property("MainPID")
	for range 2 { // pools lets five minutes pass between two passes
		fed := n.property("WatchdogTimestampMonotonic")
		n.eventually("watchdog fed", func() error {
			if n.property("WatchdogTimestampMonotonic") == fed {
				return errors.New("not since")
			}
			return nil
		})
	}
	n.answers("/healthz", http.StatusOK)

	n.run("kill", "-STOP", pid)
	if status, body, err := n.get("/healthz"); err == nil && status == http.StatusOK && n.property("MainPID") == pid {
		t.Errorf("/healthz of a stopped daemon = %d, %s; want an error", status, body)
	}
	n.eventually("new process", func() error {
		if now := n.property("MainPID"); now == pid || now == "0" {
			return fmt.Errorf("MainPID is %s", now)
		}
		return nil
	})
	n.becomes("ActiveState", "active")
	n.becomes("NRestarts", "1")
	n.answers("/healthz", http.StatusOK)
	n.answers("/readyz", http.StatusOK)
	placed("after the watchdog")
	if log := n.systemdLog(20); !strings.Contains(log, "Failed with result 'watchdog'") {
		t.Errorf("systemd's log lacks the watchdog:\n%s", log)
	}
}

// TestRuntimeDown checks that the daemon waits for a stopped runtime, that it can be stopped while it waits, and that it becomes ready
// with the runtime. A later stop of the runtime must not end the daemon.
func TestRuntimeDown(t *testing.T) {
	n := newNode(t)
	r := n.withoutKubelet()
	placed := r.threePods()
	n.run("systemctl", "stop", "containerd")
	n.write(configFile, pools)
	start := func() {
		n.run("systemctl", "start", "--no-block", "cpupoold")
		n.eventually("status of the unit", func() error {
			if s := n.property("StatusText"); !strings.HasPrefix(s, "waiting for the container runtime: find container runtime: ") {
				return fmt.Errorf("it is %q", s)
			}
			return nil
		})
	}
	start()
	n.stopDaemon()
	n.endedWell()
	start()
	if got := n.property("ActiveState"); got != "activating" {
		t.Errorf("state of the unit without a runtime = %s; want activating", got)
	}
	n.run("systemctl", "start", "containerd")
	n.becomes("ActiveState", "active")
	placed("as soon as systemd calls the unit started")
	if got := n.property("NRestarts"); got != "0" {
		t.Errorf("restarts of the unit = %s; want 0", got)
	}
	if got := n.property("StatusText"); got != "" {
		t.Errorf("status of the unit when it is ready = %q; want none", got)
	}
	if records := n.records("waiting for the container runtime"); len(records) == 0 || len(records) > 3 {
		t.Errorf("log of the wait: %v; want one record for each reason", records)
	}

	n.run("systemctl", "stop", "containerd")
	n.eventually("loss in the log", func() error {
		for _, rec := range n.records("runtime event stream") {
			if rec["state"] == "lost" {
				return nil
			}
		}
		return errors.New("no record")
	})
	placed("without a runtime")
	n.answers("/healthz", http.StatusOK)
	n.run("systemctl", "start", "containerd")
	var late pod
	n.eventually("runtime", func() (err error) {
		if _, err = r.containers(); err != nil {
			return err
		}
		late, err = r.start(1000, "default", nil)
		return err
	})
	r.onCPUs(late, 1)
	placed("with the runtime back")
	n.quiet()
	n.invariants()
}

// TestLock checks that a second daemon on the node does not start.
func TestLock(t *testing.T) {
	n := newNode(t)
	n.startDaemon(pools)
	out, err := n.try("cpupoold", "run", "--listen-address=127.0.0.1:0")
	if err == nil || !strings.Contains(out, "another cpupoold holds the node's lock") {
		t.Errorf("second daemon = %v: %s; want the lock's error", err, out)
	}
	if _, err := os.Stat("/run/cpupoold/lock"); err != nil {
		t.Error(err)
	}
}
