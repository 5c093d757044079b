package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// Names of the daemon's metrics.
const (
	secondsMetric   = "cpupoold_container_cpu_seconds_total"
	requestedMetric = "cpupoold_container_requested_cpus"
)

// A use is computed over at most window, from scrapes that are scrapeInterval apart.
const (
	scrapeInterval = 3 * time.Second
	window         = 15 * time.Second
	maxBody        = 16 << 20 // bytes of a scrape
)

// container names a container in one lifetime.
type container struct {
	pod      types.NamespacedName
	name, id string
}

// scrape holds the counters of CPU time and the gauges of requested CPUs, by container.
type scrape struct {
	at                 time.Time
	seconds, requested map[container]float64
}

// usage holds the scrapes of the last window. It is safe for concurrent use.
type usage struct {
	url string

	mu      sync.Mutex
	scrapes []scrape // the oldest first
}

// follow scrapes the daemon until ctx is done.
func (u *usage) follow(ctx context.Context) {
	tick := time.NewTicker(scrapeInterval)
	defer tick.Stop()
	for {
		if err := u.scrape(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "scrape the daemon")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (u *usage) scrape(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url, nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("read metrics: status is %s", response.Status)
	}
	s, err := parse(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return err
	}
	s.at = time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.scrapes = append(u.scrapes, s)
	for len(u.scrapes) > 2 && s.at.Sub(u.scrapes[0].at) > window {
		u.scrapes = u.scrapes[1:]
	}
	return nil
}

// parse reads metrics in the text format.
func parse(r io.Reader) (scrape, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return scrape{}, fmt.Errorf("parse metrics: %w", err)
	}
	s := scrape{seconds: map[container]float64{}, requested: map[container]float64{}}
	for _, m := range families[secondsMetric].GetMetric() {
		s.seconds[containerOf(m)] = m.GetCounter().GetValue()
	}
	for _, m := range families[requestedMetric].GetMetric() {
		s.requested[containerOf(m)] = m.GetGauge().GetValue()
	}
	return s, nil
}

func containerOf(m *dto.Metric) container {
	var c container
	for _, l := range m.GetLabel() {
		switch l.GetName() {
		case "namespace":
			c.pod.Namespace = l.GetValue()
		case "pod":
			c.pod.Name = l.GetValue()
		case "container":
			c.name = l.GetValue()
		case "container_id":
			c.id = l.GetValue()
		}
	}
	return c
}

// podUse is the CPU use of a pod's containers in CPUs, with the CPUs that they have requested.
type podUse struct {
	used      map[string]float64 // by container
	requested float64
	over      time.Duration
	at        time.Time
}

// of returns the use of a pod, and false before a container of it has been in two scrapes.
func (u *usage) of(pod types.NamespacedName) (podUse, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.scrapes) < 2 {
		return podUse{}, false
	}
	first, last := u.scrapes[0], u.scrapes[len(u.scrapes)-1]
	p := podUse{used: map[string]float64{}, over: last.at.Sub(first.at), at: last.at}
	for c, now := range last.seconds {
		if before, known := first.seconds[c]; known && c.pod == pod {
			p.used[c.name] = max(now-before, 0) / p.over.Seconds()
			p.requested += last.requested[c]
		}
	}
	return p, len(p.used) > 0
}

// utilization returns the CPU use of all containers, divided by the CPUs that they have requested.
// It returns false if they have requested none.
func (p podUse) utilization() (float64, bool) {
	total := 0.0
	for _, cpus := range p.used {
		total += cpus
	}
	return total / p.requested, p.requested > 0
}
