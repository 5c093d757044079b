//go:build guest

package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
	"github.com/cpupoold/cpupoold/test/vm/internal/observer"
)

// starter starts and stops pods of all kinds, in several goroutines, and reports them to the
// observer.
type starter struct {
	k        *killed
	creating chan struct{} // receives a value before a creation, if the test waits for one
	ending   chan struct{}
	once     sync.Once // of its close
	workers  sync.WaitGroup
	systemd  *dbus.Conn
	pods     atomic.Int64
	started  atomic.Int64 // containers
	failed   atomic.Int64 // creations that returned an error: the daemon or the runtime was restarted
}

// podKind is a pod with one container.
type podKind struct {
	name      string // for the observer
	qos       string
	milli     int64
	namespace string
}

func (p podKind) resources() cri.Resources {
	r := cri.Resources{Shares: uint64(max(p.milli*1024/1000, 2))}
	if p.qos == "guaranteed" {
		r.Quota, r.Period = p.milli*100, 100_000
	}
	return r
}

// exclusive returns the number of exclusive CPUs.
func (p podKind) exclusive() int {
	if p.name == observer.Exclusive {
		return int(p.milli / 1000)
	}
	return 0
}

func kindOf(milli int64) podKind {
	if milli%1000 == 0 {
		return podKind{observer.Exclusive, "guaranteed", milli, "default"}
	}
	return podKind{"shared", "burstable", milli, "default"}
}

// startChurn starts two goroutines, one of them for owners. Together with the resident owner, their owners need up to four
// CPUs. A third goroutine would make the restart of the emulated daemon much longer.
func startChurn(k *killed) *starter {
	k.Helper()
	systemd, err := dbus.NewSystemdConnectionContext(context.Background()) // stop is a cleanup, after the end of the test's context
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(systemd.Close)
	s := &starter{k: k, creating: make(chan struct{}), ending: make(chan struct{}), systemd: systemd}
	management := podKind{"management", "burstable", 100, "kube-system"}
	bestEffort := podKind{"shared", "besteffort", 0, "default"}
	for i, kinds := range [][]podKind{{kindOf(1000), kindOf(2000)}, {kindOf(500), management, kindOf(300), bestEffort}} {
		w := &worker{starter: s, runtime: k.runtime(), rand: rand.New(rand.NewPCG(*seed, uint64(1_000_000*(i+1)+*killsDone)))}
		s.workers.Go(func() { w.run(kinds) })
	}
	return s
}

// stop ends the goroutines, and waits until their pods are removed. It can be called twice.
func (s *starter) stop() {
	s.k.Helper()
	s.once.Do(func() { close(s.ending) })
	s.workers.Wait()
	if s.started.Load() == 0 {
		s.k.Errorf("started containers of %d pods = 0; want some", s.pods.Load())
	}
}

// resident is a container that runs until the end of the test.
type resident struct {
	scope string
	path  cgroup.Path
}

// resident starts a container.
func (s *starter) resident(milli int64) *resident {
	s.k.Helper()
	w := &worker{starter: s, runtime: s.k.runtime()}
	pod, err := w.start(kindOf(milli))
	if err != nil {
		s.k.Fatalf("%v\n%s", err, s.k.evidence())
	}
	return &resident{scope: s.k.scope(pod.container), path: w.runtime.paths[pod.container]}
}

// worker is one goroutine of a starter.
type worker struct {
	*starter
	runtime *realRuntime
	rand    *rand.Rand
}

// startedPod holds the slice and the IDs of a pod with one container. After an error the IDs can be empty.
type startedPod struct{ slice, sandbox, container string }

// run starts and stops pods of the kinds in turn. The emulated node needs seconds for a pod. With shorter
// pauses the daemon waits for CPU time, and half of the creations fail.
func (w *worker) run(kinds []podKind) {
	for i := 0; ; i++ {
		pod, err := w.start(kinds[i%len(kinds)])
		if err != nil {
			w.failed.Add(1)
		}
		select {
		case <-w.ending:
		case <-time.After(time.Duration(1000+w.rand.IntN(4000)) * time.Millisecond):
		}
		if err := w.remove(pod); err != nil {
			w.k.Errorf("remove pod: %v", err)
			return
		}
		select {
		case <-w.ending:
			return
		default:
		}
	}
}

// start starts a pod with one container. After an error, the result has the IDs of created objects.
func (w *worker) start(kind podKind) (pod startedPod, err error) {
	number := w.pods.Add(1)
	spec := testnode.PodSpec{
		Name: fmt.Sprintf("kills%d", number), Namespace: kind.namespace, UID: fmt.Sprintf("00000000-0000-4000-8000-1%011d", number),
		QoS: kind.qos, Resources: kind.resources(),
	}
	if kind.namespace == "kube-system" {
		spec.Annotations = manifest.Management(nil)
	}
	pod.slice = podSlice(spec)
	w.announce()
	asked := time.Now()
	if pod.sandbox, err = w.runtime.RunPod(spec); err != nil {
		return pod, err
	}
	w.k.observer.Identify(w.k.scope(pod.sandbox), observer.Pause, 0, asked)
	for attempt := range uint32(5) {
		w.announce()
		asked = time.Now()
		pod.container, err = w.runtime.CreateContainer(pod.sandbox, testnode.ContainerSpec{Name: "app", Attempt: attempt, Resources: kind.resources()})
		if !guestnode.TriesAgain(err) {
			break
		}
	}
	if err != nil {
		return pod, err
	}
	w.k.observer.Identify(w.k.scope(pod.container), kind.name, kind.exclusive(), asked)
	if err := w.runtime.StartContainer(pod.container); err != nil {
		return pod, err
	}
	w.started.Add(1)
	return pod, nil
}

// announce lets the test know that a creation begins.
func (w *worker) announce() {
	select {
	case w.creating <- struct{}{}:
	default:
	}
}

// remove removes a pod. It tries again while the runtime restarts.
func (w *worker) remove(pod startedPod) error {
	if pod.sandbox == "" {
		return w.stopSlice(pod.slice)
	}
	if pod.container != "" {
		w.k.observer.Ends(w.k.scope(pod.container))
	}
	var err error
	for began := time.Now(); time.Since(began) < nodeTimeout; time.Sleep(500 * time.Millisecond) {
		if err = errors.Join(w.runtime.StopPod(pod.sandbox), w.runtime.RemovePod(pod.sandbox)); err == nil {
			return w.stopSlice(pod.slice)
		}
	}
	return err
}

// stopSlice stops the unit of a pod, as the kubelet does. Each slice that remains makes the rounds of
// the observer longer.
func (w *worker) stopSlice(name string) error {
	ctx, cancel := call()
	defer cancel()
	_, err := w.systemd.StopUnitContext(ctx, name, "replace", nil)
	if refused, ok := errors.AsType[godbus.Error](err); ok && refused.Name == "org.freedesktop.systemd1.NoSuchUnit" {
		return nil // the runtime has not created it
	}
	return err
}
