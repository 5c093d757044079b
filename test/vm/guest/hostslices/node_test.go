//go:build guest

package hostslices_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// nodeTimeout is the timeout of each step on an emulated machine.
const nodeTimeout = 3 * time.Minute

type node struct {
	*testing.T
	fs *cgroup.FS
}

func newNode(t *testing.T) *node {
	t.Helper()
	fs, err := cgroup.Open("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	return &node{t, fs}
}

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

// eventually waits until cond returns nil.
func (n *node) eventually(what string, cond func() error) {
	n.Helper()
	deadline := time.Now().Add(nodeTimeout)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			log, _ := n.try("journalctl", "--no-pager", "-o", "cat", "-n", "40", "-u", "cpupoold")
			n.Fatalf("timed out waiting for %s: %v\n%s", what, err, log)
		}
		<-tick.C
	}
}

// unit holds systemd's values of one unit.
type unit struct{ cpus, weight, pid string }

// show asks systemd for units, all at once: on an emulated machine each systemctl takes its time.
func (n *node) show(names ...string) map[string]unit {
	n.Helper()
	all := make(map[string]unit)
	for text := range strings.SplitSeq(n.run("systemctl", append([]string{"show", "-p", "Id,AllowedCPUs,CPUWeight,MainPID"}, names...)...), "\n\n") {
		values := make(map[string]string)
		for line := range strings.SplitSeq(text, "\n") {
			name, value, _ := strings.Cut(line, "=")
			values[name] = value
		}
		all[values["Id"]] = unit{cpus: values["AllowedCPUs"], weight: values["CPUWeight"], pid: values["MainPID"]}
	}
	return all
}

// on checks that a cgroup runs on CPUs.
func (n *node) on(p cgroup.Path, cpus string) error {
	st, err := n.fs.Read(p)
	if err == nil && st.Effective.String() != cpus {
		err = fmt.Errorf("%s runs on %s (cpuset.cpus %q); want %s", p, st.Effective, st.CPUs, cpus)
	}
	return err
}

// allowed checks that a process may run on CPUs, and no others.
func (n *node) allowed(pid, cpus string) error {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok && strings.TrimSpace(list) != cpus {
			return fmt.Errorf("process %s may run on %s; want %s", pid, strings.TrimSpace(list), cpus)
		}
	}
	return nil
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
