package daemon

import (
	"path"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// originalsIn returns the number of originals below a cgroup in the daemon's memory.
func (r *running) originalsIn(p cgroup.Path) (n int) {
	r.inspect(func(l *Loop) {
		for k := range l.journal.Originals.Keys() {
			if strings.HasPrefix(string(k.Path), string(p)+"/") {
				n++
			}
		}
	})
	return n
}

// TestOriginalsOfTheDeparted checks that originals of removed cgroups are not written again,
// and leave the disk with the next save or resync. Originals of partitions and of existing
// cgroups stay.
func TestOriginalsOfTheDeparted(t *testing.T) {
	for name, kernel := range map[string]testnode.CgroupConfig{"cpusets": {}, "partitions": nodefixture.KernelLike(7, 0)} {
		t.Run(name, func(t *testing.T) {
			n := newNodeOn(t, kernel)
			n.YAML = strings.Replace(n.YAML, "resyncPeriod: 10m", "resyncPeriod: 1h", 1)
			if n.Kernel.Remote {
				n.YAML = nodefixture.WithPartitions(n.YAML)
			}
			r := n.start()
			var pods []string
			var slices []cgroup.Path
			for _, uid := range []string{"gone", "stays"} {
				pod := n.RunPodOf(uid, "default", "guaranteed", nodefixture.MilliCPUs(2500), nil)
				own := n.RunContainer(pod, "own", nodefixture.WholeCPUs(2))
				n.RunContainer(pod, "beside", cri.Resources{Shares: 512})
				if n.Kernel.Remote {
					n.AwaitPartition(own, cgroup.RootPartition)
				}
				pods = append(pods, pod)
				slices = append(slices, cgroup.Path(path.Dir(n.Runtime.Cgroup(own))))
			}
			r.settled()
			r.awaitIdle()
			gone, stays := r.originalsIn(slices[0]), r.originalsIn(slices[1])
			if gone == 0 || stays == 0 {
				t.Fatalf("originals: %d and %d", gone, stays)
			}
			if err := n.Runtime.StopPod(pods[0]); err != nil {
				t.Fatal(err)
			}
			n.Eventually("no originals of the departed", func() bool {
				r.awaitIdle()
				return r.originalsIn(slices[0]) == 0
			})
			if now := r.originalsIn(slices[1]); now != stays {
				t.Errorf("who is there has %d originals, and had %d", now, stays)
			}
			r.requestList()
			n.Eventually("none on the disk", func() bool {
				for _, o := range n.Journal().Originals {
					if strings.HasPrefix(string(o.Path), string(slices[0])+"/") {
						return false
					}
				}
				return true
			})
			r.stop()
			if report, err := n.restore(); err != nil || len(n.ExclusiveLists()) > 0 {
				t.Errorf("after restore: %+v, %v; lists %v", report, err, n.ExclusiveLists())
			}
		})
	}
}
