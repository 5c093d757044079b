//go:build guest

package daemon_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
)

var churned = flag.Int("churn", 0, "containers that TestChurn starts and stops; 0 leaves it out")

// churner starts and stops the containers of one pod.
type churner struct {
	runtime *realRuntime
	pod     string
	spec    testnode.ContainerSpec
	asked   []time.Duration // duration of each creation, including the daemon's NRI reply
	again   int             // how often the daemon did not decide in time, on a machine that is not run for seconds
}

func (c *churner) one() error {
	c.spec.Attempt++
	began := time.Now()
	id, err := c.runtime.CreateContainer(c.pod, c.spec)
	c.asked = append(c.asked, time.Since(began))
	if guestnode.TriesAgain(err) {
		c.again++
		return nil
	}
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	err = c.runtime.StartContainer(id)
	if guestnode.TriesAgain(err) {
		c.again++
		return c.runtime.RemoveContainer(id)
	}
	return errors.Join(err, c.runtime.StopContainer(id), c.runtime.RemoveContainer(id))
}

// TestChurn starts and stops many containers of all pools in turn. It measures the daemon's memory, threads, descriptors and
// watches ten times. None of them may grow after the second measurement, when caches are full. The durations of creations are only
// logged.
func TestChurn(t *testing.T) {
	if *churned == 0 {
		t.Skip("hours: make churn")
	}
	if *churned < 40 {
		t.Fatal("-churn is too small; want at least 40, one container of each kind in ten rounds")
	}
	n := newNode(t)
	r := n.withoutKubelet()
	r.startDaemon(strings.Replace(pools, "resyncPeriod: 5m", "resyncPeriod: 30s", 1))
	var all []*churner
	for i, qos := range []string{"guaranteed", "burstable", "burstable", "guaranteed"} {
		c := &churner{runtime: r.runtime(), spec: testnode.ContainerSpec{Name: "app", Resources: churnResources(qos)}}
		spec := testnode.PodSpec{Name: fmt.Sprintf("churn%d", i), Namespace: "default", UID: fmt.Sprintf("00000000-0000-4000-8000-0000000000c%d", i), QoS: qos, Resources: c.spec.Resources}
		var err error
		if c.pod, err = c.runtime.RunPod(spec); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	var looks []held
	for i := range 10 {
		took := r.churn(all, *churned/10)
		r.quiet()
		r.invariants()
		looks = append(looks, r.held())
		t.Logf("%d containers: %+v; %s", (i+1)*(*churned/10), looks[i], took)
	}
	first, last := looks[1], looks[len(looks)-1]
	const slack = 2 << 20 // of the collector and of the pages of stacks
	if last.rss > first.rss+slack || last.threads > first.threads+4 || last.files > first.files || last.watches > first.watches {
		t.Errorf("resources at the end grew: after the second tenth %+v, at the end %+v", first, last)
	}
}

func churnResources(qos string) cri.Resources {
	if qos == "guaranteed" {
		return cri.Resources{Shares: 1024, Quota: 100_000, Period: 100_000}
	}
	return cri.Resources{Shares: 102}
}

// churn starts and stops so many containers. It returns the total duration and the durations
// of creations.
func (n *node) churn(all []*churner, containers int) string {
	n.Helper()
	began := time.Now()
	errs := make([]error, len(all))
	var working sync.WaitGroup
	for i, c := range all {
		working.Go(func() {
			for range containers / len(all) {
				if errs[i] = c.one(); errs[i] != nil {
					return
				}
			}
		})
	}
	working.Wait()
	if err := errors.Join(errs...); err != nil {
		n.Fatalf("%v\n%s", err, n.evidence())
	}
	var asked []time.Duration
	again := 0
	for _, c := range all {
		asked, again = append(asked, c.asked...), again+c.again
		c.asked = nil
	}
	slices.Sort(asked)
	return fmt.Sprintf("in %v, created in %v (p50), %v (p99); %d so far were to be tried again", time.Since(began).Round(time.Second), asked[len(asked)/2], asked[len(asked)*99/100], again)
}

// givesBack is the maximum time until the daemon releases memory when it checks every 30 s. It covers two or three checks,
// and one more second for each check of a runtime without events.
const givesBack = 150 * time.Second

// held lists the resources of a daemon.
type held struct {
	rss                     int64 // bytes, RssAnon: the minimum within givesBack, because short-lived garbage varies
	threads, files, watches int
}

func (n *node) held() (h held) {
	n.Helper()
	proc := filepath.Join("/proc", n.property("MainPID"))
	h.rss = math.MaxInt64
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < givesBack; <-tick.C {
		h.rss = min(h.rss, n.figure(proc+"/status", "RssAnon:")<<10)
	}
	h.threads = int(n.figure(proc+"/status", "Threads:"))
	entries, err := os.ReadDir(proc + "/fdinfo")
	if err != nil {
		n.Fatal(err)
	}
	h.files = len(entries)
	for _, e := range entries {
		info, err := os.ReadFile(filepath.Join(proc, "fdinfo", e.Name()))
		if err != nil {
			continue // the descriptor was closed after the listing
		}
		h.watches += strings.Count(string(info), "inotify wd:")
	}
	return h
}

// figure is the number that follows a name at the start of a line.
func (n *node) figure(file, name string) (value int64) {
	n.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		n.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, name); ok {
			if _, err := fmt.Sscan(text, &value); err == nil {
				return value
			}
		}
	}
	n.Fatalf("no %s in %s", name, file)
	return 0
}
