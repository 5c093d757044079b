package daemon

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/appcpus"
	"github.com/cpupoold/cpupoold/internal/node/appfiles"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// cpuFile returns the contents of a container's file, or nil without one.
func (n *node) cpuFile(uid, container string) map[string]any {
	b, err := os.ReadFile(filepath.Join(n.Dir, "run/containers", uid, container+".json"))
	if err != nil {
		return nil
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		n.T.Errorf("file of %s/%s: %v", uid, container, err)
	}
	return got
}

func TestApplicationLearnsItsCPUs(t *testing.T) {
	n := newNode(t)
	r := n.start()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	pod := n.RunPod("e", "default", "guaranteed", 2, nil)
	excl := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(shared, "2-3")
	n.AwaitCPUs(excl, "4-5")
	want := map[string]any{"pod": "default/e", "container": "app", "pool": "guaranteed", "cpus": "4-5", "exclusive": true, "nodes": "1", "sharedCPUs": "2-3"}
	n.Eventually("file", func() bool { return cmp.Equal(want, n.cpuFile("e", "app")) })
	n.Eventually("file of a shared container", func() bool { return n.cpuFile("s", "app")["cpus"] == "2-3" })
	n.YAML = strings.Replace(nodefixture.PoolsYAML, "cpus: 2-3", `cpus: "3"`, 1)
	r.loop.watchers.reload()
	n.Eventually("file after a reload", func() bool {
		return n.cpuFile("s", "app")["cpus"] == "3" && n.cpuFile("e", "app")["sharedCPUs"] == "3"
	})
	// The file stays when container or daemon restart.
	if err := n.Runtime.StopContainer(excl); err != nil {
		t.Fatal(err)
	}
	r.quiet()
	r.stop()
	r = n.start()
	r.quiet()
	want["sharedCPUs"] = "3"
	if d := cmp.Diff(want, n.cpuFile("e", "app")); d != "" {
		t.Errorf("file (-want +got):\n%s", d)
	}
	if err := n.Runtime.StopPod(pod); err != nil {
		t.Fatal(err)
	}
	n.Eventually("file gone with the pod", func() bool { return n.cpuFile("e", "app") == nil })
	if n.cpuFile("s", "app") == nil {
		t.Error("another pod's file is gone too")
	}
	// The file of a pod that ends while no daemon runs is removed.
	r.stop()
	if err := n.Runtime.StopPod(n.PodOf(shared)); err != nil {
		t.Fatal(err)
	}
	n.start()
	n.Eventually("file gone with the last pod", func() bool { return n.cpuFile("s", "app") == nil })
}

// TestApplicationFilesThatCannotBeWritten checks that containers get their CPUs without files.
func TestApplicationFilesThatCannotBeWritten(t *testing.T) {
	n := newNode(t)
	if err := os.MkdirAll(filepath.Join(n.Dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	blocked := filepath.Join(n.Dir, "run/containers")
	if err := os.Symlink("/dev/null", blocked); err != nil {
		t.Fatal(err)
	}
	r := n.start()
	n.AwaitCPUs(n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2)), "4-5")
	r.quiet()
	n.Eventually("said so", func() bool { return len(n.Logged("write files for applications")) > 0 })
}

// TestReadyWhenTold checks that the files of all containers exist when the daemon is ready.
func TestReadyWhenTold(t *testing.T) {
	n := newNode(t)
	n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	r := n.start()
	r.view("ready", func(v *telemetry.View) bool { return v.Ready })
	if got := n.cpuFile("e", "app")["cpus"]; got != "4-5" {
		t.Errorf("ready, and the file has CPUs %v; want 4-5", got)
	}
}

// TestReadyInSpiteOfFiles checks that the node becomes ready and containers get their CPUs while a
// write of files hangs. The source is lost then.
func TestReadyInSpiteOfFiles(t *testing.T) {
	n := newNode(t)
	n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	h, o := n.Host(), n.options()
	l, err := newLoop(h, o)
	if err != nil {
		t.Fatal(err)
	}
	stuck, writer := make(chan struct{}), appcpus.NewWriter(h.RunDir)
	end := sync.OnceFunc(func() { close(stuck) })
	defer end()
	*l.publisher.Files = *appfiles.New(l.publisher.Files.Sources, func(entries []appcpus.Entry, whole bool) appcpus.Result {
		<-stuck
		return writer.Write(entries, whole)
	})
	r := n.serve(l)
	r.Eventually("ready", func() bool {
		var waits bool // only for the file
		r.inspectOnly(func(l *Loop) { waits = !l.publisher.Files.Due().IsZero() && !l.publisher.IsWorking(l.now()) })
		if waits {
			r.skip(appfiles.Timeout)
		}
		v := r.loop.publisher.Metrics()
		return v != nil && v.Ready
	})
	n.AwaitCPUs(n.RunContainer(n.RunPod("f", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1)), "6")
	r.view("source lost", func(v *telemetry.View) bool { return v.Sources[telemetry.ApplicationFiles] == telemetry.SourceLost })
	end()
	n.Eventually("the files", func() bool { return n.cpuFile("e", "app")["cpus"] == "4-5" && n.cpuFile("f", "app") != nil })
	r.inspect(func(*Loop) {}) // a pass
	r.view("source is back", func(v *telemetry.View) bool { return v.Sources[telemetry.ApplicationFiles] == telemetry.SourceOK })
}

// TestFaultDelaysNoOtherPod checks that the file of a new pod does not wait for the retry after a
// fault of another pod.
func TestFaultDelaysNoOtherPod(t *testing.T) {
	n := newNode(t)
	n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	h, o := n.Host(), n.options()
	l, err := newLoop(h, o)
	if err != nil {
		t.Fatal(err)
	}
	writer := appcpus.NewWriter(h.RunDir)
	*l.publisher.Files = *appfiles.New(l.publisher.Files.Sources, func(entries []appcpus.Entry, whole bool) appcpus.Result {
		r := writer.Write(entries, whole)
		for _, e := range entries {
			if e.PodUID == "e" {
				r.Faults, r.Again = append(r.Faults, appcpus.Fault{Entry: e, Text: "cannot be written"}), true
			}
		}
		return r
	})
	r := n.serve(l)
	r.view("problem", func(v *telemetry.View) bool { return v.Problems["ApplicationFileFault"] == 1 })
	const filesRetryDelay = 10 * time.Second
	began := n.clock.now()
	n.RunContainer(n.RunPod("f", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
	n.Eventually("file of the other pod", func() bool { return n.cpuFile("f", "app") != nil })
	if took := n.clock.now().Sub(began); took > filesRetryDelay/2 {
		t.Errorf("the file came after %s; the retry comes after %s", took, filesRetryDelay)
	}
}

// TestChangedFileIsProblem checks that a FIFO instead of a pod's file is replaced with the next
// resync, and is a problem of this pod until a later comparison.
func TestChangedFileIsProblem(t *testing.T) {
	n := newNode(t)
	n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	r := n.start()
	n.Eventually("file", func() bool { return n.cpuFile("e", "app") != nil })
	r.quiet()
	file := filepath.Join(n.Dir, "run/containers/e/app.json")
	if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	r.inspect(func(l *Loop) { l.publisher.Files.Recheck() }) // as a resync does
	r.view("problem", func(v *telemetry.View) bool { return v.Problems["ApplicationFileFault"] == 1 })
	if got := n.cpuFile("e", "app")["cpus"]; got != "4-5" {
		t.Errorf("the file has CPUs %v; want 4-5", got)
	}
	r.viewWithin(time.Minute, "no problem", func(v *telemetry.View) bool { return v.Problems["ApplicationFileFault"] == 0 })
}
