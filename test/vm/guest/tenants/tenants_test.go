//go:build guest

package tenants_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// program is the test's own binary on the node, for the containers of attackers.
const program = "/var/lib/tenants-attack"

// configuration is for eight CPUs.
const configuration = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0-1
  namespaces: [kube-system]
staticPods: [kube-system]
shared:
  cpus: 2-3
guaranteed:
  cpus: 4-7
podResourcesSocket: none
logFormat: json
`

const (
	// rounds is the number of pods with exclusive CPUs before the attacks, and during the attacks.
	rounds = 4
	// probes is the number of requests of /healthz in each round.
	probes = 60
	// maxMemory is in bytes. The limit of the DaemonSet is 128 MiB.
	maxMemory = 96 << 20
	// maxShare is the maximum share of one CPU. A pass takes about 50 times as long on an emulated CPU.
	maxShare = 1.2
	// someTries is the number of attempts that an attack must make.
	someTries = int64(20)
)

// node is the guest as the test uses it.
type node struct{ *guestnode.Node }

// TestTenants runs pods that attack the daemon while pods with exclusive CPUs start and end. Each of these gets its CPUs and its file, the
// probes answer, and the daemon's memory and CPU time stay bounded.
func TestTenants(t *testing.T) {
	n := node{guestnode.New(t)}
	copyProgram(t)
	n.Run("systemctl", "set-property", "--runtime", "cpupoold.service", "MemoryMax=128M")
	t.Cleanup(func() { n.Run("systemctl", "set-property", "--runtime", "cpupoold.service", "MemoryMax=infinity") })
	n.StartDaemon(configuration)
	n.lockIsPrivate()
	quiet := n.rounds("before")

	defaults := map[string]any{}
	unprivileged := map[string]any{"securityContext": map[string]any{"runAsUser": 65534, "runAsGroup": 65534}}
	privileged := map[string]any{"securityContext": map[string]any{"privileged": true}}
	pods := []manifest.Pod{
		attacker("files", defaults), attacker("threads", defaults), attacker("probes", unprivileged),
		attacker("writes", privileged), attacker("cgroups", privileged),
	}
	n.Apply(pods...)
	for _, p := range pods {
		n.Eventually("attempts of "+p.Name, func() error { return n.attempted(p.Name, 1) })
	}
	n.hasNoSharedCPUs("files")
	before, began := n.cpuTime(), time.Now()
	attacked := n.rounds("attacked")
	used, window := n.cpuTime()-before, time.Since(began)
	for _, p := range pods {
		n.Eventually("attempts of "+p.Name, func() error { return n.attempted(p.Name, someTries) })
	}
	t.Logf("start of a pod: %v before the attacks, %v during the attacks", quiet.Round(10*time.Millisecond), attacked.Round(10*time.Millisecond))
	share := used.Seconds() / window.Seconds()
	memory := n.peak()
	t.Logf("daemon during the attacks: %d KiB of memory at most, %.2f of one CPU", memory>>10, share)
	if memory > maxMemory {
		t.Errorf("the daemon had %d KiB of memory; want at most %d", memory>>10, int64(maxMemory)>>10)
	}
	if share > maxShare {
		t.Errorf("the daemon used %.2f of one CPU; want at most %.2f", share, maxShare)
	}
	n.reports("ApplicationFileFault", "files")
	if restarts := strings.TrimSpace(n.Run("systemctl", "show", "-P", "NRestarts", "cpupoold")); restarts != "0" {
		t.Errorf("restarts of the daemon = %s; want 0", restarts)
	}

	for _, p := range pods {
		n.Withdraw(p.Name)
	}
	n.Eventually("end of the problems", func() error {
		if s := n.status(); len(s.Problems) > 0 {
			return fmt.Errorf("%+v", s.Problems)
		}
		return nil
	})
}

// copyProgram puts the test's own binary to a path that pods can mount.
func copyProgram(t *testing.T) {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(program, self, 0o755), os.MkdirAll(progress, 0o777), os.Chmod(progress, 0o777)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(os.RemoveAll(program), os.RemoveAll(progress)); err != nil {
			t.Error(err)
		}
	})
}

// lockIsPrivate checks that an unprivileged user cannot open the daemon's lock.
func (n node) lockIsPrivate() {
	n.Helper()
	cmd := exec.CommandContext(n.Context(), "flock", "--nonblock", "/run/cpupoold/lock", "true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("Permission denied")) {
		n.Errorf("flock of the lock by an unprivileged user: %v, %q; want that permission is denied", err, out)
	}
}

// rounds starts and ends pods with an exclusive CPU, and returns the median time to their start.
func (n node) rounds(name string) time.Duration {
	n.Helper()
	var took []time.Duration
	for i := range rounds {
		pod := fmt.Sprintf("%s-%d", name, i)
		began := time.Now()
		n.Apply(manifest.Pod{
			Name: pod, Namespace: "default",
			Containers: []manifest.Container{{Name: "app", CPU: "1", Memory: "20Mi", Limited: true}},
		})
		n.Eventually("start of "+pod, func() error { _, err := n.Find(pod, "app"); return err })
		took = append(took, time.Since(began))
		n.owns(pod)
		n.answersProbes()
		for _, s := range n.status().Sources {
			if s.State == "lost" {
				n.Errorf("%s: source %s is lost", pod, s.Name)
			}
		}
		n.Withdraw(pod)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// owns checks that the pod's container has an exclusive CPU, that the kernel keeps other containers off it, and that its file states it.
func (n node) owns(pod string) {
	n.Helper()
	n.Eventually("exclusive CPU of "+pod, func() error {
		own, err := n.Find(pod, "app")
		if err != nil {
			return err
		}
		if own.Effective.Len() != 1 || !own.Effective.IsSubsetOf(cpuset.Range(4, 7)) {
			return fmt.Errorf("it has CPUs %s", own.Effective)
		}
		all, err := n.Containers()
		if err != nil {
			return err
		}
		for _, c := range all {
			if c.ID != own.ID && c.Effective.Overlaps(own.Effective) {
				return fmt.Errorf("container %s of pod %s has its CPU: %s", c.Name, c.Pod.Name, c.Effective)
			}
		}
		var file struct {
			CPUs      cpuset.Set `json:"cpus"`
			Exclusive bool       `json:"exclusive"`
		}
		text, err := os.ReadFile(filepath.Join(files, own.Pod.UID, "app.json"))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &file); err != nil {
			return err
		}
		if !file.Exclusive || !file.CPUs.Equal(own.Effective) {
			return fmt.Errorf("its file is %s; it has CPU %s", text, own.Effective)
		}
		return nil
	})
}

// answersProbes checks that each of several probes succeeds. A probe has the kubelet's default timeout, times 10 for the emulated CPU.
func (n node) answersProbes() {
	n.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	failed := 0
	var last error
	for range probes {
		response, err := client.Get("http://127.0.0.1:9466/healthz")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				err = errors.New(response.Status)
			}
		}
		if err != nil {
			failed, last = failed+1, err
		}
	}
	if failed > 0 {
		n.Errorf("failed probes = %d of %d, the last with %v; want 0", failed, probes, last)
	}
}

// attempted returns an error if an attack has made fewer attempts.
func (n node) attempted(name string, atLeast int64) error {
	text, err := os.ReadFile(filepath.Join(progress, name))
	if err != nil {
		return err
	}
	count, err := strconv.ParseInt(string(text), 10, 64)
	if err == nil && count < atLeast {
		err = fmt.Errorf("attack %s made %d attempts; want at least %d", name, count, atLeast)
	}
	return err
}

// hasNoSharedCPUs checks that the daemon has removed the pod's own OPENSHIFT_SHARED_CPUS. CRI-O would give these CPUs to its container.
func (n node) hasNoSharedCPUs(pod string) {
	n.Helper()
	c, err := n.Find(pod, "app")
	if err != nil {
		n.Fatal(err)
	}
	pids, err := n.FS.ReadFile(c.Path, "cgroup.procs")
	if err != nil || len(strings.Fields(string(pids))) == 0 {
		n.Fatalf("processes of %s: %q, %v", pod, pids, err)
	}
	environ, err := os.ReadFile("/proc/" + strings.Fields(string(pids))[0] + "/environ")
	if err != nil {
		n.Fatal(err)
	}
	for v := range strings.SplitSeq(string(environ), "\x00") {
		if value, is := strings.CutPrefix(v, "OPENSHIFT_SHARED_CPUS="); is && value != "" {
			n.Errorf("container of pod %s has the CPUs of its author: %s", pod, v)
		}
	}
}

// reports waits until the daemon reports a problem of a pod.
func (n node) reports(code, pod string) {
	n.Helper()
	n.Eventually(code+" of "+pod, func() error {
		s := n.status()
		for _, p := range s.Problems {
			if p.Code == code && strings.HasSuffix(p.Pod, "/"+n.FullName(pod)) {
				return nil
			}
		}
		return fmt.Errorf("problems: %+v", s.Problems)
	})
}

// status returns the answer of cpupoold status.
func (n node) status() (s inspect.Status) {
	n.Helper()
	if err := json.Unmarshal([]byte(n.Run("cpupoold", "status", "-o", "json")), &s); err != nil {
		n.Fatal(err)
	}
	return s
}

// peak returns the maximum resident memory of the daemon in bytes.
func (n node) peak() int64 {
	n.Helper()
	pid := strings.TrimSpace(n.Run("systemctl", "show", "-P", "MainPID", "cpupoold"))
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		n.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nVmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		n.Fatal(err)
	}
	return kib << 10
}

// cpuTime returns the CPU time of the daemon's unit.
func (n node) cpuTime() time.Duration {
	n.Helper()
	text, err := os.ReadFile("/sys/fs/cgroup/system.slice/cpupoold.service/cpu.stat")
	if err != nil {
		n.Fatal(err)
	}
	var µs int64
	if _, err := fmt.Sscanf(string(text), "usage_usec %d", &µs); err != nil {
		n.Fatal(err)
	}
	return time.Duration(µs) * time.Microsecond
}
