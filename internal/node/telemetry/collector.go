package telemetry

import (
	"fmt"
	"slices"
	"sync"

	"github.com/containerd/cgroups/v3/cgroup2/stats"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/procfs"
)

// collector makes the metrics from the View and the kernel's counters at each scrape.
type collector struct {
	metrics map[string]metric
	view    func() *View
	proc    procfs.FS
	cgroups string
	build   []string // label values of buildInfo

	mu    sync.Mutex // guards meter: scrapes may overlap
	meter meter
}

type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newCollector(o Options) (*collector, error) {
	proc, err := procfs.NewFS(o.Proc)
	if err != nil {
		return nil, fmt.Errorf("open proc file system: %w", err)
	}
	c := &collector{
		metrics: make(map[string]metric),
		view:    o.View,
		proc:    proc,
		cgroups: o.Cgroups,
		build:   []string{o.Build.Version, o.Build.Revision, o.Build.Go},
	}
	for _, s := range specs() {
		c.metrics[s.name] = metric{prometheus.NewDesc(s.name, s.help, s.labels, nil), s.kind}
	}
	readings, err := cpuReadings(proc, nil)
	if err != nil {
		return nil, err
	}
	c.meter.update(readings, nil)
	return c, nil
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector. A value that cannot be read is reported as an
// error. All other metrics are still emitted.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	e := emitter{ch, c.metrics}
	e.emit(buildInfo, 1, c.build...)
	v := c.view()
	if v == nil {
		v = &View{}
	}
	e.state(v)
	e.node(v.Node)
	e.audit(v.Audit)
	e.liveAudit(v.LiveAudit)
	e.settings(v.Settings)
	e.placement(v)

	readings, err := cpuReadings(c.proc, v.Pools)
	if err != nil {
		e.invalid(poolSeconds, err)
	}
	readings = append(readings, e.containers(v, c.cgroups)...)
	names := make([]PoolName, 0, len(v.Pools))
	for _, p := range v.Pools {
		names = append(names, p.PoolName)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meter.update(readings, names)
	for s, sum := range c.meter.sums {
		labels := []string{s.Pool, s.Type}
		if s.kind != "" {
			labels = append(labels, s.kind)
		}
		e.emit(s.metric, sum, labels...)
	}
}

// emitter sends metrics that the table of specs describes.
type emitter struct {
	ch      chan<- prometheus.Metric
	metrics map[string]metric
}

func (e emitter) emit(name string, value float64, labels ...string) {
	m := e.metrics[name]
	sample, err := prometheus.NewConstMetric(m.desc, m.kind, value, labels...)
	if err != nil { // a label is not UTF-8
		sample = prometheus.NewInvalidMetric(m.desc, err)
	}
	e.ch <- sample
}

// each emits a sample for each entry of a map, with the key as its label.
func each[N int | uint64](e emitter, name string, values map[string]N) {
	for label, n := range values {
		e.emit(name, float64(n), label)
	}
}

func (e emitter) invalid(name string, err error) {
	e.ch <- prometheus.NewInvalidMetric(e.metrics[name].desc, err)
}

func (e emitter) state(v *View) {
	e.emit(configStale, boolValue(v.ConfigStale))
	e.emit(configAdapted, float64(len(v.Adapted)))
	e.emit(offlineCPUs, float64(v.Offline.Len()))
	var at float64
	if !v.LastSuccess.IsZero() {
		at = float64(v.LastSuccess.UnixMilli()) / 1000
	}
	e.emit(lastSuccess, at)
	for _, result := range []Result{OK, Failed, Unavailable} {
		e.emit(passes, float64(v.Passes[result]), string(result))
	}
	for _, result := range []Result{OK, Failed} {
		for _, via := range []string{"file", "cri", "dbus", "nri"} {
			e.emit(writes, float64(v.Writes[Write{via, result}]), via, string(result))
		}
	}
	for failed, n := range v.WriteErrors {
		e.emit(writeErrors, float64(n), failed.Via, failed.Errno)
	}
	e.emit(faulty, float64(v.Faulty))
	for source, is := range v.Sources {
		for _, state := range []SourceState{SourceOK, SourcePolling, SourceAbsent, SourceLost} {
			e.emit(sourceState, boolValue(is == state), string(source), string(state))
		}
	}
	each(e, problems, v.Problems)
	for _, u := range v.HostUnits {
		e.emit(hostUnit, 1, u.Name, u.State)
	}
	e.refusals(v)
	e.drifts(v)
	e.placements(v)
}

func (e emitter) refusals(v *View) {
	each(e, refusals, v.Refused)
	e.emit(refusedNow, float64(v.RefusedNow))
	e.emit(shortenedWaits, float64(v.Shortened))
	for kind, h := range v.Replies {
		e.histogram(replyTime, h, kind)
	}
}

func (e emitter) placement(v *View) {
	e.pools(v)
	each(e, partitions, v.Partitions)
	each(e, observedWrites, v.Observed)
	each(e, quietWaits, v.Quiet)
	e.emit(partitionChanges, float64(v.PartitionChanges))
	e.emit(leakedCPUs, float64(v.Leaked.Len()))
	e.emit(mixedContainers, float64(v.Mixed))
	e.emit(parkedCPUs, float64(v.Parked.Len()))
	type group struct {
		PoolName
		reason string
	}
	counts := make(map[group]int)
	for _, c := range v.Containers {
		counts[group{c.PoolName, c.Reason}]++
		if c.Isolation != "" {
			e.emit(containerMode, 1, c.Pool, c.Type, c.Namespace, c.Pod, c.Name, c.ID, c.Isolation)
		}
		for source, cpus := range c.Noise {
			e.emit(containerNoise, float64(cpus), c.Pool, c.Type, c.Namespace, c.Pod, c.Name, c.ID, source)
		}
	}
	for g, n := range counts {
		e.emit(containers, float64(n), g.Pool, g.Type, g.reason)
	}
}

func (e emitter) pools(v *View) {
	const milli = 1000
	for _, p := range v.Pools {
		e.emit(poolCPUs, float64(p.CPUs.Len()), p.Pool, p.Type)
		e.emit(poolAllocated, float64(p.Allocated)/milli, p.Pool, p.Type)
		if p.Pool == "guaranteed" {
			e.emit(poolFreeCPUs, float64(p.Free.Len()))
		}
	}
	e.claims(v.Claims)
	if r := v.Room; r != nil {
		each(e, ownerRoom, map[string]int{"pool": r.Pool, "numa_node": r.Node, "l3": r.L3, "whole_cores": r.WholeCores})
	}
}

func (e emitter) claims(c *Claims) {
	if c == nil {
		return
	}
	each(e, claimCount, map[string]int{"used": c.Used, "prepared": c.Prepared, "refused": c.Refused})
	for device, d := range c.Devices {
		if device != "" { // no device of offline CPUs
			e.emit(claimCPUs, float64(d.Allocated), device, "allocated")
			e.emit(claimCPUs, float64(d.Free), device, "free")
		}
		e.emit(claimCPUs, float64(d.Offline), device, "offline")
	}
}

// containers emits CPU statistics, and returns pressure and throttled time for the pools.
func (e emitter) containers(v *View, cgroups string) []reading {
	var readings []reading
	for _, c := range v.Containers {
		if c.Cgroup == "" || c.Unit { // systemd accounts for units
			continue
		}
		s, err := cpuStat(cgroups, c.Cgroup)
		if err != nil {
			e.invalid(containerSeconds, err)
		}
		if s == nil {
			continue
		}
		labels := []string{c.Pool, c.Type, c.Namespace, c.Pod, c.Name, c.ID}
		e.emit(containerSeconds, microseconds(s.GetUsageUsec()), labels...)
		if c.Requested > 0 {
			e.emit(containerRequest, c.Requested, labels...)
		}
		e.emit(containerThrottle, microseconds(s.GetThrottledUsec()), labels...)
		readings = append(readings, reading{source{poolThrottle, c.ID, ""}, microseconds(s.GetThrottledUsec()), []PoolName{c.PoolName}})
		for kind, p := range map[string]*stats.PSIData{"some": s.GetPSI().GetSome(), "full": s.GetPSI().GetFull()} {
			if p == nil {
				continue // PSI is off, or the kernel is older than 5.13 and has no full
			}
			e.emit(containerPressure, microseconds(p.GetTotal()), append(slices.Clip(labels), kind)...)
			readings = append(readings, reading{source{poolPressure, c.ID, kind}, microseconds(p.GetTotal()), []PoolName{c.PoolName}})
		}
	}
	return readings
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
