//go:build guest

package livedaemon_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

var (
	rounds = flag.Int("rounds", 4, "containers that TestHandovers creates and removes in a row")
	out    = flag.String("out", "", "file for the samples of TestMemory")
)

// config has partitions and host slices, so that the kernel keeps each task of a process off the CPUs of owners. A partition alone is
// not enough: it begins after the start of its container, and services of the node can run on the CPUs until then.
const config = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- {type: management, cpus: 0-1, namespaces: [kube-system]}
shared: {cpus: 2-7}
guaranteed: {from: shared, floor: 2, isolation: partition}
hostSlices: {enabled: true}
resyncPeriod: 1h
podResourcesSocket: none
audit: {live: true}
`

const (
	programState = `cpupoold_live_audit_program{program="btf"}`
	watchedCPUs  = "cpupoold_live_audit_watched_cpus"
	watchedTime  = "cpupoold_live_audit_watched_cpu_seconds_total"
	switches     = "cpupoold_live_audit_switches_total"
	foreignUsers = `cpupoold_live_audit_foreign_switches_total{kind="user"}`
	foreignOther = `cpupoold_live_audit_foreign_switches_total{kind="kernel_other"}`
	lost         = "cpupoold_live_audit_lost_switches_total"
)

type node struct{ *guestnode.Node }

// owner is a pod with two exclusive CPUs.
func owner(name string, args ...string) manifest.Pod {
	return manifest.Pod{Name: name, Namespace: "default", Containers: []manifest.Container{
		{Name: "app", CPU: "2", Memory: "32Mi", Limited: true, Args: args}}}
}

// TestHandovers creates and removes containers in a row, next to an owner and busy other containers. No task of a process is
// reported, and the CPUs of the older owner are watched at any time. Then the daemon is killed: the kernel removes its program.
func TestHandovers(t *testing.T) {
	n := &node{guestnode.New(t)}
	n.StartDaemon(config)
	n.AwaitNRI()
	shared := manifest.Pod{Name: "shared", Namespace: "default", Containers: []manifest.Container{
		{Name: "app", CPU: "500m", Memory: "32Mi", Args: []string{"spin", "1"}}}}
	n.Apply(shared, owner("old", "spin", "1"))
	n.placed("old")
	n.Settled()
	n.Eventually("watch of the older owner", func() error {
		m, err := n.metrics()
		if err != nil || m[programState] != 1 || m[watchedCPUs] != 2 {
			return fmt.Errorf("program %v, watched CPUs %v, %w", m[programState], m[watchedCPUs], err)
		}
		return nil
	})
	least := n.lowest(func() {
		for i := range *rounds {
			name := "next" + strconv.Itoa(i%2)
			n.Apply(owner(name, "pause"))
			n.placed(name)
			n.Eventually("watch of the next owner", func() error {
				if m, err := n.metrics(); err != nil || m[watchedCPUs] != 4 {
					return fmt.Errorf("watched CPUs %v, %w", m[watchedCPUs], err)
				}
				return nil
			})
			n.Withdraw(name)
		}
	})
	if least < 2 {
		t.Errorf("at least %v CPUs watched; want the two of the older owner at any time", least)
	}
	// Two readings later, the metrics have all tasks of the last round.
	m, err := n.metrics()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		last := m[watchedTime]
		n.Eventually("reading of the program", func() (err error) {
			if m, err = n.metrics(); err == nil && (m[watchedTime] == last || m[switches] == 0) {
				err = fmt.Errorf("%v CPU seconds watched, before %v, %v switches", m[watchedTime], last, m[switches])
			}
			return err
		})
	}
	t.Logf("%d containers: %v CPU seconds watched, %v switches, foreign: users %v, other kernel threads %v", *rounds,
		m[watchedTime], m[switches], m[foreignUsers], m[foreignOther])
	if m[foreignUsers] != 0 || m[lost] != 0 {
		status, _ := n.Try("cpupoold", "status")
		t.Errorf("%v switches of foreign tasks, %v without a row; want none\n%s\n%s", m[foreignUsers], m[lost], status, n.Evidence())
	}

	if found := n.programs(); len(found) == 0 {
		t.Error("no eBPF program of the daemon")
	}
	n.Run("systemctl", "kill", "--signal=KILL", "cpupoold")
	n.Run("systemctl", "stop", "cpupoold") // before systemd starts it again
	n.Eventually("end of the program", func() error {
		if found := n.programs(); len(found) > 0 {
			return fmt.Errorf("programs %v", found)
		}
		return nil
	})
	if pinned, err := os.ReadDir("/sys/fs/bpf"); err == nil {
		for _, p := range pinned {
			if strings.Contains(p.Name(), "cpupool") {
				t.Errorf("pinned: %s", p.Name())
			}
		}
	}
}

// placed waits until a pod has two exclusive CPUs in a partition.
func (n *node) placed(pod string) {
	n.Helper()
	n.Eventually("CPUs of "+pod, func() error {
		c, err := n.Find(pod, "app")
		if err == nil && (c.Effective.Len() != 2 || !c.Partition.Is(cgroup.RootPartition)) {
			err = fmt.Errorf("on CPUs %s, %s", c.Effective, c.Partition)
		}
		return err
	})
}

// lowest returns the smallest number of watched CPUs while f runs, in samples.
func (n *node) lowest(f func()) float64 {
	n.Helper()
	least := 8.0
	ctx, end := context.WithCancel(n.Context())
	var sampling sync.WaitGroup
	sampling.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if m, err := n.metrics(); err == nil {
				least = min(least, m[watchedCPUs])
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	func() {
		defer sampling.Wait()
		defer end()
		f()
	}()
	return least
}

// metrics returns the samples of the daemon.
func (n *node) metrics() (map[string]float64, error) {
	request, err := http.NewRequestWithContext(n.Context(), http.MethodGet, "http://127.0.0.1:9466/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	all := make(map[string]float64)
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil && name != "#" {
			all[name] = v
		}
	}
	return all, lines.Err()
}

// programs returns the tracing programs in the kernel. The programs of systemd have other types.
func (n *node) programs() (all []string) {
	n.Helper()
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return all
		}
		if err != nil {
			n.Fatal(err)
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOENT) {
			continue // it has ended
		}
		if err != nil {
			n.Fatal(err)
		}
		if p.Type() == ebpf.Tracing || p.Type() == ebpf.TracePoint {
			all = append(all, p.String())
		}
		_ = p.Close()
	}
}
