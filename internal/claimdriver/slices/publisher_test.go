package slices_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/cpupoold/cpupoold/internal/claimdriver/slices"
	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// cluster is an API server with feature gates, and a Node. Requests hold mu. The test uses the fields while the
// Publisher waits, and calls release before it lets the time go on.
type cluster struct {
	mu                       sync.Mutex
	mapping, taints, sharing bool // feature gates of the API server
	declares                 bool // the kubelet declares the feature of the mapping
	reserved                 string
	fails                    error // answer to each probe
	refusesMapping           error // answer to each probe with a mapping
	probes                   int
}

// on is a cluster with all features. Its kubelet reserves the CPUs.
func on() *cluster {
	return &cluster{mapping: true, taints: true, sharing: true, declares: true, reserved: "8"}
}

// release passes the fields that the test has used on to requests, also for the race detector.
func (c *cluster) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
}

func forbidden(text string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}, "", errors.New(text))
}

// store returns the devices as the API server stores them.
func (c *cluster) store(devices []resourcev1.Device) error {
	for i := range devices {
		d := &devices[i]
		switch {
		case !c.mapping:
			d.NodeAllocatableResources = nil
		case len(d.NodeAllocatableResources) > 0 && !c.declares:
			return forbidden(`node "n" does not support DRANodeAllocatableResources feature`)
		case len(d.NodeAllocatableResources) > 0 && c.refusesMapping != nil:
			return c.refusesMapping
		}
		if !c.taints {
			d.Taints = nil
		}
		if !c.sharing {
			d.AllowMultipleAllocations = nil
			for name, capacity := range d.Capacity {
				capacity.RequestPolicy = nil
				d.Capacity[name] = capacity
			}
		}
	}
	return nil
}

func (c *cluster) client() *fake.Clientset {
	f := fake.NewClientset()
	f.PrependReactor("create", "resourceslices", func(a clienttesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.probes++
		create := a.(clienttesting.CreateActionImpl)
		if diff := cmp.Diff([]string{metav1.DryRunAll}, create.CreateOptions.DryRun); diff != "" {
			return true, nil, fmt.Errorf("the probe is no dry run:\n%s", diff)
		}
		slice := create.Object.(*resourcev1.ResourceSlice).DeepCopy()
		if c.fails != nil {
			return true, nil, c.fails
		}
		return true, slice, c.store(slice.Spec.Devices)
	})
	f.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		allocatable := resource.MustParse("16")
		allocatable.Sub(resource.MustParse(c.reserved))
		n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16")}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: allocatable}
		if c.declares {
			n.Status.DeclaredFeatures = []string{"DRANodeAllocatableResources"}
		}
		return true, n, nil
	})
	return f
}

// driver is a Publisher that runs.
type driver struct {
	*slices.Publisher
	t        *testing.T
	in       *cluster
	registry *prometheus.Registry
	got      []string // lines of the last publication; nil before the first
	last     resourceslice.DriverResources
	count    int // of publications
}

// start runs a Publisher in a bubble of synctest, until the test ends.
func start(t *testing.T, c *cluster, accounting slices.Accounting) *driver {
	t.Helper()
	d := &driver{t: t, in: c, registry: prometheus.NewRegistry()}
	d.Publisher = slices.New(slices.Options{Node: "n", Accounting: accounting, Client: c.client(), Registry: d.registry, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- d.Run(ctx, func(_ context.Context, r resourceslice.DriverResources) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			d.got, d.last, d.count = lines(r), r, d.count+1
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return d
}

// lines returns the devices of the pool "n", and each other pool.
func lines(r resourceslice.DriverResources) []string {
	all := []string{}
	for name, pool := range r.Pools {
		if name != "n" {
			all = append(all, "pool "+name)
		}
		for i, slice := range pool.Slices {
			for _, d := range slice.Devices {
				c := d.Capacity[dra.Capacity]
				line := fmt.Sprintf("%d %s %s %s", i, d.Name, c.Value.String(), *d.Attributes[dra.Driver+"/accounting"].StringValue)
				if m, has := d.NodeAllocatableResources[corev1.ResourceCPU]; has {
					line += fmt.Sprintf(" cpu=%s*%s", *m.Mapping.CapacityKey, m.Mapping.CapacityMultiplier)
				}
				for _, taint := range d.Taints {
					line += fmt.Sprintf(" %s:%s", taint.Key, taint.Effect)
				}
				all = append(all, line)
			}
		}
	}
	return all
}

// answer sends answers of the daemon for a time.
func (d *driver) answer(c *inspect.Claims, during time.Duration) {
	d.in.release()
	pause := max(during/5000, time.Second)
	for until := time.Now().Add(during); time.Now().Before(until); {
		d.Answered(c)
		time.Sleep(pause)
	}
	synctest.Wait()
}

// pass lets time pass without the daemon.
func (d *driver) pass(t time.Duration) {
	d.in.release()
	time.Sleep(t)
	synctest.Wait()
}

// want compares the published devices.
func (d *driver) want(when string, want ...string) {
	d.t.Helper()
	if len(want) == 0 {
		want = []string{}
	}
	if diff := cmp.Diff(want, d.got); diff != "" {
		d.t.Errorf("%s: -want +got:\n%s", when, diff)
	}
}

// metrics returns the metrics that are above zero.
func (d *driver) metrics() string {
	d.t.Helper()
	families, err := d.registry.Gather()
	if err != nil {
		d.t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, m := range f.Metric {
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue()
			if value == 0 {
				continue
			}
			line := strings.TrimPrefix(f.GetName(), "cpupool_dra_")
			for _, l := range m.Label {
				line += " " + l.GetValue()
			}
			all = append(all, fmt.Sprintf("%s=%v", line, value))
		}
	}
	return strings.Join(all, ", ")
}

// ready is an answer of a daemon with four CPUs on each of two NUMA nodes.
func ready() *inspect.Claims {
	return &inspect.Claims{Ready: true, Devices: []inspect.ClaimDevice{
		{Name: "numa0", CPUs: cpuset.Of(2, 3, 10, 11), Step: 2, ThreadsPerCore: 2, L3s: 1},
		{Name: "numa1", Node: 1, CPUs: cpuset.Of(4, 5, 12, 13), Step: 2, ThreadsPerCore: 2, L3s: 1},
	}}
}

const mapped = " mapped cpu=cpu.cpupoold.io/cpus*1"

// TestAccounting checks devices and problems with the gates of the API server and of the kubelet on and off.
func TestAccounting(t *testing.T) {
	for _, c := range []struct {
		name       string
		accounting slices.Accounting
		cluster    func(*cluster)
		suffix     string // of both devices; empty: no devices
		metrics    string
	}{
		{"all on", slices.Auto, nil, mapped, "accounting mapped=1, cpus=8, devices=2"},
		{"as configured", slices.Reserved, nil, " reserved", "accounting reserved=1, cpus=8, devices=2"},
		{"mapping", slices.Mapped, nil, mapped, "accounting mapped=1, cpus=8, devices=2"},
		{"off in the API server", slices.Auto, func(c *cluster) { c.mapping = false }, " reserved", "accounting reserved=1, cpus=8, devices=2"},
		{"off in the kubelet", slices.Auto, func(c *cluster) { c.declares = false }, " reserved", "accounting reserved=1, cpus=8, devices=2"},
		{"mapping, off in the API server", slices.Mapped, func(c *cluster) { c.mapping = false }, "", "accounting reserved=1, slice_problems mapping=1"},
		{"mapping, off in the kubelet", slices.Mapped, func(c *cluster) { c.declares = false }, "", "accounting reserved=1, slice_problems mapping=1"},
		{"refused by a policy", slices.Auto, func(c *cluster) { c.refusesMapping = forbidden("denied by a policy") }, " reserved", "accounting reserved=1, cpus=8, devices=2"},
		{"too little reserved", slices.Auto, func(c *cluster) { c.mapping, c.reserved = false, "7500m" }, " reserved", "accounting reserved=1, cpus=8, devices=2, slice_problems unreserved=1"},
		{"nothing to reserve", slices.Auto, func(c *cluster) { c.reserved = "0" }, mapped, "accounting mapped=1, cpus=8, devices=2"},
		{"no shares", slices.Auto, func(c *cluster) { c.sharing = false }, "", "accounting mapped=1, slice_problems sharing=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := on()
				if c.cluster != nil {
					c.cluster(in)
				}
				d := start(t, in, c.accounting)
				d.answer(ready(), time.Second)
				var want []string
				if c.suffix != "" {
					want = []string{"0 numa0 4" + c.suffix, "0 numa1 4" + c.suffix}
				}
				d.want("first answer", want...)
				if got := d.metrics(); got != c.metrics {
					t.Errorf("metrics:\n%s\nwant:\n%s", got, c.metrics)
				}
			})
		})
	}
}

// TestAway checks the taint of devices while the daemon does not answer.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := on()
		in.mapping = false
		d := start(t, in, slices.Auto)
		d.pass(29 * time.Second)
		if d.got != nil {
			t.Errorf("published %v before an answer of the daemon; want nothing", d.got)
		}
		d.pass(2 * time.Second)
		d.want("no answer since the start")
		d.answer(ready(), 40*time.Second)
		d.want("answers", "0 numa0 4 reserved", "0 numa1 4 reserved")
		d.pass(28 * time.Second)
		d.want("29 s later", "0 numa0 4 reserved", "0 numa1 4 reserved")
		d.pass(2 * time.Second)
		d.want("31 s later", "0 numa0 4 reserved cpu.cpupoold.io/away:NoSchedule", "0 numa1 4 reserved cpu.cpupoold.io/away:NoSchedule")
		if got, want := d.metrics(), "accounting reserved=1, cpus=8, devices=2, slice_problems away=1"; got != want {
			t.Errorf("metrics:\n%s\nwant:\n%s", got, want)
		}
		fewer := ready()
		fewer.Devices[0].CPUs = cpuset.Of(3, 11)
		d.answer(fewer, time.Second)
		d.want("with a core offline", "0 numa0 2 reserved", "0 numa1 4 reserved")
		published := d.count
		d.answer(fewer, 20*time.Second)
		if d.count != published {
			t.Errorf("the same answer led to %d publications; want none", d.count-published)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		in := on()
		in.taints = false
		d := start(t, in, slices.Auto)
		d.answer(ready(), time.Second)
		d.pass(30 * time.Second)
		d.want("away, without taints in the API server")
	})
}

// TestNotReady checks that no devices are published when the daemon is not ready for 30 seconds.
func TestNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, on(), slices.Auto)
		starting := ready()
		starting.Ready, starting.Problem = false, "NRI is not connected"
		d.answer(starting, 29*time.Second)
		if d.got != nil {
			t.Errorf("published %v before the daemon was ready; want nothing", d.got)
		}
		d.answer(starting, 2*time.Second)
		d.want("never ready")
		if got, want := d.metrics(), "accounting mapped=1, slice_problems not_ready=1"; got != want {
			t.Errorf("metrics:\n%s\nwant:\n%s", got, want)
		}
		both := []string{"0 numa0 4" + mapped, "0 numa1 4" + mapped}
		d.answer(ready(), time.Second)
		d.want("ready", both...)
		d.answer(starting, 28*time.Second)
		d.want("not ready for 28 s", both...)
		d.answer(starting, 3*time.Second)
		d.want("not ready for 31 s")
		d.pass(time.Hour)
		d.want("away")
		d.answer(ready(), time.Second)
		d.want("ready again", both...)
	})
}

// TestProbe checks the times of probes, and that refusals which may pass change nothing.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := on()
		in.fails = apierrors.NewServiceUnavailable("starting")
		d := start(t, in, slices.Auto)
		d.answer(ready(), 60*time.Second)
		if d.got != nil {
			t.Errorf("published %v before the API server has answered; want nothing", d.got)
		}
		in.fails = nil
		d.answer(ready(), 6*time.Second)
		d.want("answered", "0 numa0 4"+mapped, "0 numa1 4"+mapped)
		asked := in.probes
		d.answer(ready(), 12*time.Hour)
		if in.probes != asked {
			t.Errorf("%d probes in half a day; want none", in.probes-asked)
		}
		in.refusesMapping = forbidden("not yet ready to handle request")
		d.answer(ready(), 13*time.Hour)
		if in.probes < asked+10 {
			t.Errorf("%d probes after a refusal that may pass; want one each minute", in.probes-asked)
		}
		d.want("refusals that may pass", "0 numa0 4"+mapped, "0 numa1 4"+mapped)
		in.refusesMapping, in.mapping = nil, false
		d.answer(ready(), 61*time.Second)
		d.want("gate switched off in the API server", "0 numa0 4 reserved", "0 numa1 4 reserved")
		in.mapping, in.declares = true, false
		d.answer(ready(), 10*time.Minute)
		in.declares = true
		d.answer(ready(), 10*time.Minute)
		d.want("kubelet with the gate", "0 numa0 4"+mapped, "0 numa1 4"+mapped)
		in.declares = false
		d.answer(ready(), 10*time.Minute)
		d.want("kubelet without the gate", "0 numa0 4 reserved", "0 numa1 4 reserved")
	})
}

// TestSharingLater checks that devices are published soon after the gate for shares of devices is switched on.
func TestSharingLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := on()
		in.sharing = false
		d := start(t, in, slices.Auto)
		d.answer(ready(), time.Hour)
		d.want("no shares")
		if in.probes > 10 {
			t.Errorf("%d probes in an hour; want 10 at most", in.probes)
		}
		in.sharing = true
		d.answer(ready(), 11*time.Minute)
		d.want("gate switched on", "0 numa0 4"+mapped, "0 numa1 4"+mapped)
	})
}

// TestFailed checks the effect of errors of the publication.
func TestFailed(t *testing.T) {
	slice := func(devices []resourcev1.Device) *resourcev1.ResourceSlice { return dra.Slice("n", devices) }
	synctest.Test(t, func(t *testing.T) {
		in := on()
		d := start(t, in, slices.Auto)
		d.answer(ready(), time.Second)
		sent := d.last.Pools["n"].Slices[0].Devices
		stored := slice(sent).DeepCopy()
		in.mapping = false
		if err := in.store(stored.Spec.Devices); err != nil {
			t.Fatal(err)
		}
		asked := in.probes
		in.release()
		d.Failed(fmt.Errorf("update: %w", &resourceslice.DroppedFieldsError{PoolName: "n", DesiredSlice: slice(sent), ActualSlice: stored}), "m")
		synctest.Wait()
		d.want("mapping dropped", "0 numa0 4 reserved", "0 numa1 4 reserved")
		in.mapping, in.declares = true, false
		in.release()
		d.Failed(fmt.Errorf("update: %w", forbidden("refused")), "m")
		synctest.Wait()
		if in.probes != asked {
			t.Errorf("probe within a minute of the last")
		}
		d.answer(ready(), 61*time.Second)
		if in.probes != asked+2 {
			t.Errorf("%d probes after a refusal; want 2, with and without the mapping", in.probes-asked)
		}
		d.want("kubelet off", "0 numa0 4 reserved", "0 numa1 4 reserved")
		d.Failed(&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusConflict}}, "m")
		if got, want := d.metrics(), "accounting reserved=1, cpus=8, devices=2, publication_errors_total dropped_fields=1, publication_errors_total other=1, publication_errors_total refused=1"; got != want {
			t.Errorf("metrics:\n%s\nwant:\n%s", got, want)
		}
	})
}

// TestManyDevices checks that slices keep to the number of devices with taints that the API takes.
func TestManyDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, on(), slices.Auto)
		many := &inspect.Claims{Ready: true}
		for i := range 65 {
			many.Devices = append(many.Devices, inspect.ClaimDevice{Name: fmt.Sprintf("numa%d", i), Node: i, CPUs: cpuset.Of(i), Step: 1})
		}
		d.answer(many, time.Second)
		if n := len(d.last.Pools["n"].Slices); n != 2 || len(d.got) != 65 || d.got[64] != "1 numa64 1"+mapped {
			t.Errorf("%d slices, devices %v; want two slices, and the last device in the second", n, d.got)
		}
	})
}

// TestAccountingText checks the values of the flag.
func TestAccountingText(t *testing.T) {
	for _, text := range []string{"auto", "reserved", "mapped"} {
		var a slices.Accounting
		if err := a.UnmarshalText([]byte(text)); err != nil || string(a) != text {
			t.Errorf("%q: accounting %q, error %v", text, a, err)
		}
	}
	var a slices.Accounting
	if err := a.UnmarshalText([]byte("mirrored")); err == nil || !strings.Contains(err.Error(), `unknown accounting "mirrored"; use auto, reserved or mapped`) {
		t.Errorf("mirrored: error %v", err)
	}
}
