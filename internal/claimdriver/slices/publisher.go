package slices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/cpupoold/cpupoold/internal/inspect"
)

const (
	// gracePeriod is the time for which the devices stay as they are while the daemon does not answer, or is
	// not ready. A restart of the daemon takes less.
	gracePeriod = 30 * time.Second
	// The Node is read often, because a restart of the kubelet can change its features and its
	// reservation. A probe follows each day, after such a change, and after a refusal.
	readInterval  = 10 * time.Minute
	probeInterval = 24 * time.Hour
	retryInterval = time.Minute
	// firstInterval is between questions before the first answer: until then nothing is published.
	firstInterval  = 5 * time.Second
	requestTimeout = 10 * time.Second
)

// Options configure a Publisher.
type Options struct {
	Node       string
	Accounting Accounting
	// NUMAAttributes are further attributes that hold the NUMA node, such as dra.net/numaNode.
	NUMAAttributes []resourcev1.QualifiedName
	Client         kubernetes.Interface
	Registry       prometheus.Registerer
	Log            *slog.Logger
}

// Publisher publishes the devices of a node. Its methods can be called concurrently.
type Publisher struct {
	o     Options
	count *counters
	wake  chan struct{} // with room for one

	mu         sync.Mutex
	claims     *inspect.Claims
	answered   time.Time // last answer of the daemon, or the start
	readySince time.Time // last time at which the daemon was ready, or the start
	known      bool      // support has been answered
	support    support
	kubelet    reservation
	probeAt    time.Time // next question to the API server
	readAt     time.Time // next reading of the Node
	asked      time.Time // last question to the API server

	last  *resourceslice.DriverResources // published; used by Run alone
	shown decision                       // the last one in the log; used by Run alone
}

// New returns a Publisher that has published nothing.
func New(o Options) *Publisher {
	return &Publisher{o: o, count: newCounters(o.Registry), wake: make(chan struct{}, 1), shown: decision{problems: map[kind]string{}}}
}

// Answered takes an answer of the daemon to GET /v1/claims. Call it for each answer, at least every ten
// seconds: without an answer for 30 seconds, the devices get a taint. The Publisher keeps claims.
func (p *Publisher) Answered(claims *inspect.Claims) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims, p.answered = claims, time.Now()
	if claims.Ready {
		p.readySince = p.answered
	}
	p.wakeUp()
}

// Failed takes an error of the publication, which kubeletplugin reports to DRAPlugin.HandleError. It logs
// and counts the error. Fields that the API server has dropped are not published again before the next
// probe. A refusal leads to a probe.
func (p *Publisher) Failed(err error, message string) {
	var dropped *resourceslice.DroppedFieldsError
	label := errorOther
	p.mu.Lock()
	switch {
	case errors.As(err, &dropped):
		label = errorDropped
		p.support = p.support.observe(dropped.DesiredSlice.Spec.Devices, dropped.ActualSlice.Spec.Devices)
		if again := p.asked.Add(readInterval); !p.support.sharing && p.probeAt.After(again) {
			p.probeAt = again
		}
	case isRefusal(err):
		label = errorRefused
		p.probeAt = p.asked.Add(retryInterval)
	}
	p.wakeUp()
	p.mu.Unlock()
	p.count.errors.WithLabelValues(label).Inc()
	p.o.Log.Error("publish ResourceSlices", "message", message, "error", err)
}

func (p *Publisher) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run publishes the devices with publish, which is the method PublishResources of kubeletplugin.Helper,
// until ctx ends or publish fails. First it waits for the API server's answer to the probe. Then it waits at
// most 30 seconds for a daemon that is ready.
func (p *Publisher) Run(ctx context.Context, publish func(context.Context, resourceslice.DriverResources) error) error {
	p.mu.Lock()
	p.answered = time.Now()
	p.readySince = p.answered
	p.mu.Unlock()
	for {
		p.ask(ctx)
		next, err := p.step(ctx, publish)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-time.After(time.Until(next)):
		}
	}
}

// ask reads the Node and asks the API server, if it is time.
func (p *Publisher) ask(ctx context.Context) {
	if p.isDue(&p.readAt) {
		p.read(ctx)
	}
	if p.isDue(&p.probeAt) {
		p.probe(ctx)
	}
}

func (p *Publisher) isDue(at *time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !time.Now().Before(*at)
}

// read reads the Node. Another answer of the kubelet about its features leads to a probe.
func (p *Publisher) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	node, err := p.o.Client.CoreV1().Nodes().Get(ctx, p.o.Node, metav1.GetOptions{})
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if err != nil {
		p.readAt = now.Add(retryInterval)
		p.failed(ctx, fmt.Errorf("read Node: %w", err))
		return
	}
	before := p.kubelet
	p.kubelet, p.readAt = reservationOf(node), now.Add(readInterval)
	if before.declares != p.kubelet.declares || before.version != p.kubelet.version {
		p.probeAt = now
	}
}

// probe asks the API server for the fields that it stores. After a refusal that may pass, an earlier
// answer about the mapping is kept.
func (p *Publisher) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	got, err := probe(ctx, p.o.Client, p.o.Node)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = time.Now()
	switch {
	case err != nil:
		p.failed(ctx, err)
		p.probeAt = p.asked.Add(retryInterval)
		if !p.known {
			p.probeAt = p.asked.Add(firstInterval)
		}
		return
	case !got.sharing && (got.mapping || got.settled): // no devices are published until the feature gate is on
		p.probeAt = p.asked.Add(readInterval)
	case got.mapping || got.settled:
		p.probeAt = p.asked.Add(probeInterval)
	default:
		p.probeAt = p.asked.Add(retryInterval)
		if p.known {
			got.mapping, got.reason, got.settled = p.support.mapping, p.support.reason, p.support.settled
		}
	}
	p.support, p.known = got, true
}

// failed logs and counts an error of ask, if ctx has not ended otherwise.
func (p *Publisher) failed(ctx context.Context, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	p.count.probeFailures.Inc()
	p.o.Log.Warn("ask the API server", "error", err)
}

// step publishes the devices if they have changed, and returns the time of the next step.
func (p *Publisher) step(ctx context.Context, publish func(context.Context, resourceslice.DriverResources) error) (time.Time, error) {
	now := time.Now()
	p.mu.Lock()
	s := situation{
		accounting: p.o.Accounting, names: p.o.NUMAAttributes, claims: p.claims, support: p.support, kubelet: p.kubelet,
		away:     now.Sub(p.answered) >= gracePeriod,
		notReady: p.claims != nil && !p.claims.Ready && now.Sub(p.readySince) >= gracePeriod,
	}
	next := earliest(now, p.readAt, p.probeAt, p.answered.Add(gracePeriod), p.readySince.Add(gracePeriod))
	known := p.known
	p.mu.Unlock()
	waits := p.last == nil && !s.away && !s.notReady && (s.claims == nil || !s.claims.Ready)
	if !known || waits {
		return next, nil
	}
	d := s.decide()
	p.report(d, s.support.reason)
	r := resources(p.o.Node, d.devices)
	if p.last != nil && equality.Semantic.DeepEqual(*p.last, r) {
		return next, nil
	}
	if err := publish(ctx, r); err != nil {
		return next, fmt.Errorf("publish ResourceSlices: %w", err)
	}
	p.last = &r
	return next, nil
}

// earliest returns the first of the times after now. It returns now if all have passed, for example because the
// machine stood still between ask and step.
func earliest(now time.Time, times ...time.Time) time.Time {
	times = slices.DeleteFunc(times, func(t time.Time) bool { return !t.After(now) })
	if len(times) == 0 {
		return now
	}
	return slices.MinFunc(times, time.Time.Compare)
}

// report logs and counts a decision. The log has each change of the accounting and of the problems.
func (p *Publisher) report(d decision, reason string) {
	p.count.show(d)
	if d.counted != p.shown.counted {
		p.o.Log.Info("accounting of claims", "accounting", d.counted, "configured", p.o.Accounting, "reason", reason)
	}
	for _, k := range slices.Sorted(maps.Keys(d.problems)) {
		if d.problems[k] != p.shown.problems[k] {
			p.o.Log.Warn("problem of the devices", "kind", k, "problem", d.problems[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(p.shown.problems)) {
		if _, has := d.problems[k]; !has {
			p.o.Log.Info("problem of the devices has ended", "kind", k)
		}
	}
	p.shown = d
}
