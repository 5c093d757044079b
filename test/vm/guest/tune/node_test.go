//go:build guest

package tune_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// nodeTimeout is the timeout of each step on an emulated machine.
const nodeTimeout = 3 * time.Minute

type node struct{ *testing.T }

func (n *node) try(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), nodeTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(out), err
}

func (n *node) run(name string, args ...string) string {
	n.Helper()
	out, err := n.try(name, args...)
	if err != nil {
		n.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func (n *node) write(name, content string) {
	n.Helper()
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = os.WriteFile(name, []byte(content), 0o644)
	}
	if err != nil {
		n.Fatal(err)
	}
}

func (n *node) read(name string) string {
	n.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		n.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// eventually waits until cond returns nil.
func (n *node) eventually(what string, cond func() error) {
	n.Helper()
	began := time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := cond()
		if err == nil {
			n.Logf("%s: after %v", what, time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Since(began) > nodeTimeout {
			log, _ := n.try("journalctl", "--no-pager", "-o", "cat", "-n", "60", "-u", "cpupoold")
			n.Fatalf("timed out waiting for %s: %v\n%s", what, err, log)
		}
		<-tick.C
	}
}

// metrics checks that the daemon serves all of these lines.
func (n *node) metrics(lines ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:9466/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	for _, line := range lines {
		if err == nil && !strings.Contains(string(body), line+"\n") {
			err = fmt.Errorf("no line %q", line)
		}
	}
	return err
}

const defaultAffinity = "/proc/irq/default_smp_affinity"

// irqs are the interrupts that there are, with their masks.
func (n *node) irqs() map[string]cpuset.Set {
	n.Helper()
	files, err := filepath.Glob("/proc/irq/[0-9]*/smp_affinity_list")
	if err != nil {
		n.Fatal(err)
	}
	all := make(map[string]cpuset.Set)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // gone
		}
		set, err := cpuset.Parse(strings.TrimSpace(string(b)))
		if err != nil {
			n.Fatalf("%s: %v", f, err)
		}
		all[filepath.Base(filepath.Dir(f))] = set
	}
	return all
}

func affinityOf(irq string) string { return "/proc/irq/" + irq + "/smp_affinity_list" }

// put writes a file of the kernel, as another process would.
func put(name, value string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}

// movable are the interrupts whose mask the kernel lets be written: it is written as it is.
func (n *node) movable() []string {
	n.Helper()
	var all []string
	for irq, mask := range n.irqs() {
		if put(affinityOf(irq), mask.String()) == nil {
			all = append(all, irq)
		}
	}
	return all
}

// dump is everything that cpupoold may change here, as it is.
func (n *node) dump() map[string]string {
	n.Helper()
	all := map[string]string{defaultAffinity: n.read(defaultAffinity)}
	for irq, mask := range n.irqs() {
		all["irq "+irq] = mask.String()
	}
	all["workqueues"] = n.read("/sys/devices/virtual/workqueue/cpumask")
	pids, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		n.Fatal(err)
	}
	for _, f := range pids {
		b, err := os.ReadFile(f)
		text := string(b)
		i := strings.LastIndexByte(text, ')')
		if err != nil || i < 0 {
			continue
		}
		fields := strings.Fields(text[i+1:])
		flags, err := strconv.ParseUint(fields[6], 10, 64)
		name := text[strings.IndexByte(text, '(')+1 : i]
		if err != nil || flags&0x200000 == 0 || flags&0x4000000 != 0 || strings.HasPrefix(name, "irq/") {
			continue // no kernel thread, or a bound one
		}
		status, err := os.ReadFile(filepath.Dir(f) + "/status")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
				all["kthread "+name+" "+filepath.Base(filepath.Dir(f))] = strings.TrimSpace(list)
			}
		}
	}
	return all
}
