//go:build apiserver

package claims_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/cpupoold/cpupoold/internal/claimdriver/slices"
	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// publication is a driver that publishes with the controller of kubeletplugin, and prepares nothing.
type publication struct {
	*slices.Publisher
	s        *apiServer
	node     string
	stop     func() // ends the driver; it can be called again
	registry *prometheus.Registry

	answer *inspect.Claims // of the daemon while a test waits. Without it, the daemon does not answer.

	mu      sync.Mutex
	dropped []error // reports of dropped fields
}

// publish starts a driver on a node. It ends with the test.
func (s *apiServer) publish(t *testing.T, node string, accounting slices.Accounting) *publication {
	t.Helper()
	p := &publication{s: s, node: node, registry: prometheus.NewRegistry()}
	client := s.driver(t, node)
	p.Publisher = slices.New(slices.Options{
		Node: node, Accounting: accounting, Client: client, Registry: p.registry, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", node),
		NUMAAttributes: []resourcev1.QualifiedName{"dra.net/numaNode"},
	})
	ctx, cancel := context.WithCancel(t.Context())
	helper, err := kubeletplugin.Start(ctx, p, kubeletplugin.DriverName(dra.Driver), kubeletplugin.NodeName(node), kubeletplugin.KubeClient(client),
		kubeletplugin.RegistrationService(false), kubeletplugin.DRAService(false))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, helper.PublishResources) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("publication on %s: %v", node, err)
		}
		helper.Stop()
	})
	t.Cleanup(p.stop)
	return p
}

// HandleError passes errors on, as the driver does.
func (p *publication) HandleError(_ context.Context, err error, message string) {
	if dropped := new(resourceslice.DroppedFieldsError); errors.As(err, &dropped) {
		p.mu.Lock()
		p.dropped = append(p.dropped, err)
		p.mu.Unlock()
	}
	p.Failed(err, message)
}

// reports returns the reports of dropped fields.
func (p *publication) reports() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

func (p *publication) PrepareResourceClaims(context.Context, []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	return nil, errors.New("not part of this test")
}

func (p *publication) UnprepareResourceClaims(context.Context, []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	return nil, errors.New("not part of this test")
}

func (p *publication) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

// wants waits until the API server has these devices of the node in one slice, and returns the name of the slice.
func (p *publication) wants(t *testing.T, subject string, want ...string) (name string) {
	t.Helper()
	eventually(t, subject+" on "+p.node, func(ctx context.Context) error {
		if p.answer != nil {
			p.Answered(p.answer)
		}
		list, err := p.s.client(t, admin, "").ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + p.node + ",spec.driver=" + dra.Driver})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("%d slices; want 1", len(list.Items))
		}
		slice := &list.Items[0]
		name = slice.Name
		if slice.Spec.Pool.Name != p.node || slice.Spec.Pool.ResourceSliceCount != 1 || len(slice.OwnerReferences) != 1 || slice.OwnerReferences[0].Name != p.node {
			return fmt.Errorf("slice %s has pool %+v and owners %+v; want the node", slice.Name, slice.Spec.Pool, slice.OwnerReferences)
		}
		got := []string{}
		for i := range slice.Spec.Devices {
			got = append(got, line(&slice.Spec.Devices[i]))
		}
		if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
			return fmt.Errorf("devices: -want +got:\n%s", diff)
		}
		return nil
	})
	return name
}

// line returns name, capacity, policy, accounting, mapping and taints of a device.
func line(d *resourcev1.Device) string {
	c := d.Capacity[dra.Capacity]
	text := fmt.Sprintf("%s %s", d.Name, c.Value.String())
	if policy := c.RequestPolicy; policy != nil {
		text += fmt.Sprintf(" default %s min %s", policy.Default, policy.ValidRange.Min)
		if policy.ValidRange.Step != nil {
			text += " step " + policy.ValidRange.Step.String()
		}
	}
	if accounting := d.Attributes[dra.Driver+"/accounting"].StringValue; accounting != nil {
		text += " " + *accounting
	}
	if m, has := d.NodeAllocatableResources[corev1.ResourceCPU]; has {
		text += fmt.Sprintf(" cpu=%s*%s", *m.Mapping.CapacityKey, m.Mapping.CapacityMultiplier)
	}
	for _, taint := range d.Taints {
		text += fmt.Sprintf(" %s:%s since %t", taint.Key, taint.Effect, taint.TimeAdded != nil)
	}
	return text
}

const mapping = " mapped cpu=cpu.cpupoold.io/cpus*1"

// answer returns the answer of a daemon that has a list of CPUs for claims.
func answer(t *testing.T, machine, list string, options allocate.Options) *inspect.Claims {
	t.Helper()
	m, err := hardware.Parse(machine)
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	p := pools.Pools{Claims: pools.ClaimPool{CPUs: cpus.Intersection(m.Topology().Online)}, Options: options}
	return &inspect.Claims{Ready: true, Devices: inspect.ClaimDevices(&p, allocate.New(m.Topology()), cpuset.Set{})}
}

// four is a daemon with four CPUs, fewer is the same with a core offline.
func four(t *testing.T) *inspect.Claims {
	return answer(t, "cores=4 threads=2", "2-3,6-7", allocate.Options{})
}
func fewer(t *testing.T) *inspect.Claims {
	return answer(t, "cores=4 threads=2 offline=3,7", "2-3,6-7", allocate.Options{})
}

// testShapes publishes the devices of different machines, and of each number of CPUs.
func testShapes(t *testing.T, s *apiServer) {
	p := s.publish(t, "n1", slices.Mapped)
	whole := allocate.Options{FullPCPUsOnly: true}
	for _, c := range []struct {
		machine, list string
		options       allocate.Options
		want          []string // without the mapping
	}{
		{"packages=2 cores=4 threads=2", "2-7,10-15", allocate.Options{}, []string{"numa0 4 default 1 min 1 step 1", "numa1 8 default 1 min 1 step 1"}},
		{"packages=1 nodes=2 l3s=2 cores=2 threads=2", "2-7,10-15", whole, []string{"numa0 4 default 2 min 2 step 2", "numa1 8 default 2 min 2 step 2"}},
		{"cores=4 threads=2", "3,7", whole, []string{"numa0 2 default 2 min 2"}},
		{"cores=4", "3", allocate.Options{}, []string{"numa0 1 default 1 min 1"}},
		{"cores=4 threads=2 offline=6", "2-3,6-7", whole, []string{"numa0 2 default 2 min 2"}},
		{"cores=4 threads=2 offline=3,7", "3,7", whole, nil},
		{"cores=2 threads=2 small=4", "1,3-7", whole, []string{"numa0-performance 2 default 2 min 2", "numa0-efficiency 4 default 1 min 1 step 1"}},
		{"packages=2 cores=2 numa=off", "1,3", allocate.Options{}, []string{"numa0 2 default 1 min 1 step 1"}},
		{"cores=4", "", allocate.Options{}, nil},
		{"packages=8 cores=64 threads=2", "0-1023", whole, []string{
			"numa0 128 default 2 min 2 step 2", "numa1 128 default 2 min 2 step 2", "numa2 128 default 2 min 2 step 2", "numa3 128 default 2 min 2 step 2",
			"numa4 128 default 2 min 2 step 2", "numa5 128 default 2 min 2 step 2", "numa6 128 default 2 min 2 step 2", "numa7 128 default 2 min 2 step 2",
		}},
	} {
		p.answer = answer(t, c.machine, c.list, c.options)
		var want []string
		for _, d := range c.want {
			want = append(want, d+mapping)
		}
		p.wants(t, c.machine+" with "+c.list, want...)
	}
	// Each number of CPUs, as whole cores and not.
	client := s.driver(t, "n1").ResourceV1().ResourceSlices()
	for cpus := 1; cpus <= 64; cpus++ {
		list := make([]string, cpus) // each second core
		for i := range list {
			list[i] = fmt.Sprintf("%d,%d", 2*i, 2*i+128)
		}
		for _, options := range []allocate.Options{{}, whole} {
			a := answer(t, "cores=128 threads=2", strings.Join(list, ","), options)
			if _, err := client.Create(t.Context(), with(func(s *resourcev1.ResourceSlice) { s.Spec.Devices = dra.Devices(a.Devices) }), dryRun()); err != nil {
				t.Errorf("%d cores: %v", cpus, err)
			}
		}
	}
	if got := p.metric(t, "cpupool_dra_publication_errors_total"); got != 0 {
		t.Errorf("%v errors of the publication; want none", got)
	}
	p.answer = four(t)
	p.wants(t, "four CPUs", "numa0 4 default 1 min 1 step 1"+mapping)
}

// metric returns the sum of a metric.
func (p *publication) metric(t *testing.T, name string) (sum float64) {
	t.Helper()
	families, err := p.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.Metric {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
