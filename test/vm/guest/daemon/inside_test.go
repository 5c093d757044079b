//go:build guest

package daemon_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestInside checks the daemon's reports of its state against the kernel, and its actions against its
// events.
func TestInside(t *testing.T) {
	n := newNode(t)
	r := n.withoutKubelet()
	n.startDaemon(hourly)
	n.nriConnected()
	shared, owner := r.mustStart(500, "default", nil), r.mustStart(2000, "default", nil)
	n.eventually("the owner's CPUs", func() error {
		st, err := n.fs.Read(owner.path)
		if err == nil && st.Effective.Len() != 2 {
			err = fmt.Errorf("it has %s", st.Effective)
		}
		return err
	})
	n.quiet()
	n.reportsState(cpuset.Range(0, 7))
	free := n.status().Pools[2].Free
	spare := free.Last()
	t.Cleanup(func() {
		if err := setOnline(spare, true); err != nil {
			t.Error(err)
		}
	})
	n.plug(spare, false)
	n.eventually("the status has a CPU less", func() error {
		if got := n.status().Pools[2].Free; !got.Equal(free.Difference(cpuset.Of(spare))) {
			return fmt.Errorf("free are %s", got)
		}
		return nil
	})
	n.quiet()
	n.reportsState(cpuset.Range(0, 7).Difference(cpuset.Of(spare)))

	if err := os.WriteFile("/sys/fs/cgroup/"+string(shared.path)+"/"+cgroup.FileCPUs, []byte("0-3"), 0); err != nil {
		t.Fatal(err)
	}
	n.eventually("the external write and its repair are events", func() error {
		var kinds []history.Kind
		for _, e := range n.events("--pod", shared.name) {
			kinds = append(kinds, e.Kind)
		}
		for _, kind := range []history.Kind{history.Placed, history.Drift, history.Repaired} {
			if !slices.Contains(kinds, kind) {
				return fmt.Errorf("events of %s: %v", shared.name, kinds)
			}
		}
		return nil
	})
	n.explains(shared, owner)
	n.reports(shared.name)
	if later := n.events("--since", time.Now().Add(time.Hour).Format(time.RFC3339)); len(later) > 0 {
		t.Errorf("events of the next hour = %v; want none", later)
	}
	if out, err := n.try("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cpupoold", "status"); err == nil {
		t.Errorf("every user may query the daemon: %s", out)
	}
	n.stopDaemon()
	if out, err := n.try("cpupoold", "status"); err == nil || !strings.Contains(out, "start cpupoold run") {
		t.Errorf("without a daemon: %v, %s; want what to do", err, out)
	}
}

// explains compares the output of explain with the kernel, and requests a container that
// does not exist.
func (n *node) explains(shared, owner pod) {
	n.Helper()
	for _, c := range []pod{shared, owner} {
		var e inspect.Explanation
		if err := json.Unmarshal([]byte(n.run("cpupoold", "explain", c.name, "-o", "json")), &e); err != nil {
			n.Fatal(err)
		}
		st, err := n.fs.Read(c.path)
		if err != nil {
			n.Fatal(err)
		}
		if len(e.Subjects) != 1 {
			n.Fatalf("subjects of %s = %d; want 1: %+v", c.name, len(e.Subjects), e.Subjects)
		}
		s := e.Subjects[0]
		if s.Kernel == nil || s.Kernel.Effective != st.Effective.String() || !s.Container.CPUs.Equal(st.Effective) {
			n.Errorf("%s is explained with kernel %+v and CPUs %s; its cgroup has %s", c.name, s.Kernel, s.Container.CPUs, st.Effective)
		}
		if !slices.ContainsFunc(s.Rules, func(r inspect.Rule) bool { return r.Met }) || len(s.Events) == 0 {
			n.Errorf("%s: no met rule, or no event: %+v", c.name, s)
		}
		if text := n.run("cpupoold", "explain", c.name, "--details"); !strings.HasPrefix(text, s.Sentence+"\n") || strings.Contains(text, "…") {
			n.Errorf("explain prints %s\nwant the sentence %q first, and no shortened text in a pipe", text, s.Sentence)
		}
	}
	if out, err := n.try("cpupoold", "explain", "nobody"); err == nil || !strings.Contains(out, "nobody") {
		n.Errorf("explain without container: %v, %s; want an error that names it", err, out)
	}
}

// reports makes an archive for a bug report, as it is and without names.
func (n *node) reports(name string) {
	n.Helper()
	for _, redact := range []bool{false, true} {
		file := fmt.Sprintf("%s/%v.tar.gz", n.TempDir(), redact)
		n.run("cpupoold", "report", fmt.Sprintf("--redact=%v", redact), "-o", file)
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
			n.Errorf("report: %v, %v; want a file of mode 0600", info, err)
		}
		list, all := n.run("tar", "tzf", file), n.run("tar", "xzOf", file)
		for _, want := range []string{"versions.json", "topology.json", "cgroups.jsonl", "status.json", "events.json", "config.yaml", "check.json", "journal.txt"} {
			if !strings.Contains(list, want) {
				n.Errorf("report lacks %s:\n%s", want, list)
			}
		}
		// A whole word: the UID of another pod can start with the digits of the name.
		if regexp.MustCompile(`\b`+name+`\b`).MatchString(all) == redact {
			n.Errorf("redact %v: the pod's name %s is in the archive: %v", redact, name, redact)
		}
	}
}

// reportsState compares the status, as JSON and as a table, with the kernel.
func (n *node) reportsState(online cpuset.Set) {
	n.Helper()
	s := n.status()
	if len(s.Containers) != 2 {
		n.Errorf("containers %+v; want the two that were started", s.Containers)
	}
	for _, c := range s.Containers {
		if c.Cgroup == "" {
			n.Errorf("%s has no cgroup; want one", c.Full())
			continue
		}
		if st, err := n.fs.Read(cgroup.Path(c.Cgroup)); err != nil || !st.Effective.Equal(c.CPUs) {
			n.Errorf("CPUs of %s = %s; want the kernel's %s, %v", c.Full(), c.CPUs, st.Effective, err)
		}
	}
	var there cpuset.Set
	for _, c := range s.CPUs {
		if c.Online {
			there = there.Union(cpuset.Of(c.ID))
		}
	}
	if !there.Equal(online) || len(s.CPUs) != 8 {
		n.Errorf("online CPUs of %d = %s; want %s of 8", len(s.CPUs), there, online)
	}
	if text := n.run("cpupoold", "status"); strings.Contains(text, "…") {
		n.Errorf("status shortens text in a pipe; want the whole text:\n%s", text)
	}
}

func (n *node) status() (s inspect.Status) {
	n.Helper()
	if err := json.Unmarshal([]byte(n.run("cpupoold", "status", "-o", "json")), &s); err != nil {
		n.Fatal(err)
	}
	if len(s.Pools) != 3 {
		n.Fatalf("pools = %+v; want 3", s.Pools)
	}
	return s
}

func (n *node) events(args ...string) (all []history.Event) {
	n.Helper()
	for line := range strings.Lines(n.run("cpupoold", append([]string{"events", "-o", "json"}, args...)...)) {
		var e history.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			n.Fatal(errors.Join(err, errors.New(line)))
		}
		all = append(all, e)
	}
	return all
}
