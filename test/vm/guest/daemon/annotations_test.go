//go:build guest

package daemon_test

import (
	"flag"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// largeMessages lets containerd send lists of more than 16 MiB. Its streams do not help: they have up to 5,000 pods in a message
// (containerd 2.4.2, internal/cri/util/stream.go).
const largeMessages = `version = 4

[plugins.'io.containerd.server.v1.grpc']
  max_send_message_size = 67108864
`

var annotated = flag.Bool("annotations", false, "run TestAnnotations, which needs a machine with 4 GiB of memory")

// TestAnnotations checks the memory of the daemon on a node with 110 pods that have 256 KiB of annotations each, the maximum of the API
// server. The unit has the memory limit of the DaemonSet. It is the last test in its guest: pods and limits stay.
func TestAnnotations(t *testing.T) {
	const (
		pods   = 110
		size   = 256<<10 - 1<<10 // the other annotation needs some bytes
		maxRSS = 96 << 20
	)
	if !*annotated {
		t.Skip("needs a machine with 4 GiB: TestTenants of test/vm runs it there")
	}
	n := newNode(t)
	n.sendsLargeLists()
	n.keepsPods = true // their end would take minutes
	r := n.withoutKubelet()
	n.run("systemctl", "set-property", "--runtime", "cpupoold.service", "MemoryMax=128M")
	annotations := map[string]string{"example.org/note": strings.Repeat("x", size/2), "cpu-quota.crio.io/x": strings.Repeat("x", size/2)} // the daemon keeps the second name
	maps.Copy(annotations, manifest.Management(nil))
	start := func() pod {
		t.Helper()
		p, err := r.start(100, "kube-system", annotations)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for range pods - 2 { // the runtime reports annotations of pods, and none of them with a container
		if _, err := r.startWith(100, "kube-system", annotations, ""); err != nil {
			t.Fatal(err)
		}
	}
	last := start()
	peak := func(when string) {
		t.Helper()
		rss := n.figure("/proc/"+n.property("MainPID")+"/status", "VmHWM:") << 10
		t.Logf("%s: at most %d KiB of memory", when, rss>>10)
		if rss > maxRSS {
			t.Errorf("%s: at most %d KiB of memory; want at most %d", when, rss>>10, maxRSS>>10)
		}
	}
	placed := func(path cgroup.Path) {
		t.Helper()
		n.eventually("management pool of "+string(path), func() error {
			s, err := n.fs.Read(path)
			if err == nil && s.CPUs.String() != "0-1" {
				err = fmt.Errorf("it has CPUs %s", s.CPUs)
			}
			return err
		})
	}
	n.startDaemon(strings.Replace(pools, "resyncPeriod: 5m", "resyncPeriod: 5s", 1))
	placed(last.path)
	peak("after the start")
	placed(start().path)
	before := n.total("cpupoold_passes_total")
	n.eventually("three passes", func() error {
		if done := n.total("cpupoold_passes_total") - before; done < 3 {
			return fmt.Errorf("%v are done", done)
		}
		return nil
	})
	peak("after three resyncs")
	if limits := n.records("memory limit of Go"); len(limits) != 1 || limits[0]["bytes"] != float64(64<<20) {
		t.Errorf("log of the memory limit: %v; want half of 128 MiB", limits)
	}
}

// sendsLargeLists lets the runtime send lists of up to 64 MiB.
func (n *node) sendsLargeLists() {
	n.Helper()
	if n.image.Name == "cri-o" {
		return // sends 80 MiB
	}
	n.write("/etc/containerd/conf.d/messages.toml", largeMessages)
	n.run("systemctl", "restart", n.image.Unit)
	n.eventually("runtime", func() error { _, err := n.containers(); return err })
}
