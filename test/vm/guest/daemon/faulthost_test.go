//go:build guest

package daemon_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// smallDisk puts the journal on a separate file system until the end of the test.
func (n *node) smallDisk() {
	n.Helper()
	dir := filepath.Dir(journal)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		n.Fatal(err)
	}
	n.run("mount", "-t", "tmpfs", "-o", "size=128k,mode=700", "none", dir)
	n.Cleanup(func() {
		n.stopDaemon()
		n.run("umount", dir)
	})
}

// fillDisk leaves no room for another journal, until the function is called that it returns.
func (n *node) fillDisk() (empty func()) {
	n.Helper()
	name := filepath.Join(filepath.Dir(journal), "ballast")
	file, err := os.Create(name)
	if err != nil {
		n.Fatal(err)
	}
	page := bytes.Repeat([]byte{1}, 4096)
	for err == nil {
		_, err = file.Write(page)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		n.Error(err)
	}
	if err := file.Close(); err != nil {
		n.Error(err)
	}
	return func() {
		n.Helper()
		if err := os.Remove(name); err != nil {
			n.Error(err)
		}
	}
}

// journalFails waits until the daemon reports that it cannot write the journal, or that it can
// again.
func (f *faults) journalFails(want bool) {
	f.Helper()
	const series = `cpupoold_problems{code="JournalNotWritten"}`
	f.eventually("word on the journal", func() error {
		if is := f.metrics(series)[series] > 0; is != want {
			return fmt.Errorf("not written: %v; want %v", is, want)
		}
		return nil
	})
}

// diskIsFull checks that no container waits for a disk, and that CPUs allocated while the disk
// is full have one owner.
func (f *faults) diskIsFull() {
	f.Helper()
	empty := f.fillDisk()
	exclusive, shared := f.mustStart(1000, "default", nil), f.mustStart(500, "default", nil)
	f.journalFails(true)
	f.settles(exclusive, shared)
	f.stand("with a full disk")
	empty()
	f.journalFails(false)
	f.over("a full disk")
}

// clockIsSet sets the clock an hour ahead and back while containers start and stop. NRI is off, so the daemon gets their times from the
// runtime alone. No action may wait for an hour, repeat without end, or report an hour as its duration.
func (f *faults) clockIsSet() {
	f.Helper()
	began := time.Now()
	set := func(off time.Duration) {
		f.Helper()
		f.run("date", "-s", fmt.Sprintf("@%d", began.Add(time.Since(began)+off).Unix()))
		if status, body, err := f.get("/healthz"); err != nil || status != http.StatusOK {
			f.Errorf("/healthz after a change of the clock = %d, %s, %v; want 200", status, body, err)
		}
	}
	f.Cleanup(func() { set(0) })
	rt := f.runtime()
	var id string
	back := f.loseNRI(func() { id, _ = f.guaranteedPod(rt, "fa03", 1) })
	f.ends(rt, id)
	const count, took, passes, mended = "cpupoold_placement_seconds_count", "cpupoold_placement_seconds_sum", "cpupoold_passes_total", "cpupoold_drift_repair_seconds_sum"
	before := make(map[string]float64)
	for _, name := range []string{count, took, passes, mended} {
		before[name] = f.total(name)
	}
	containers := 0.0
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		empty := f.fillDisk()
		exclusive := f.mustStart(1000, "default", nil)
		f.journalFails(true) // it is tried again in a moment, not in an hour
		set(off)
		shared := f.mustStart(500, "default", nil)
		containers += 2
		f.eventually("all containers measured", func() error {
			if got := f.total(count) - before[count]; got != containers {
				return fmt.Errorf("%v placements; want %v", got, containers)
			}
			return nil
		})
		f.repaired()
		f.settles(exclusive, shared)
		empty()
		f.journalFails(false)
		f.stand("with the clock set")
	}
	back()
	set(0)
	for _, name := range []string{took, mended} {
		if got := f.total(name) - before[name]; got > time.Since(began).Seconds()*containers {
			f.Errorf("growth of %s = %v s in %v; want at most the time of its containers", name, got, time.Since(began))
		}
	}
	if got := f.total(passes) - before[passes]; got > 1000 {
		f.Errorf("passes during the change of the clock = %v; want at most 1000", got)
	}
	f.comes()
	f.over("a clock that was set")
}

// total sums all series of a metric.
func (n *node) total(metric string) (sum float64) {
	n.Helper()
	for _, v := range n.metrics(metric) {
		sum += v
	}
	return sum
}
