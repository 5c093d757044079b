package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

func readTopology(root fs.FS) (*topology.Topology, error) {
	sys, err := fs.Sub(root, "sys")
	if err != nil {
		return nil, err
	}
	return topology.Read(sys)
}

func checkTopology(e *evidence) []Finding {
	if e.topologyErr == nil {
		return nil
	}
	return []Finding{{
		Severity: Refuse,
		Subject:  "/sys/devices/system/cpu",
		Found:    fmt.Sprintf("the machine's CPUs cannot be read: %v", e.topologyErr),
		Remedy:   "mount sysfs on /sys",
	}}
}

// checkConfiguration reports the file itself: its form, its keys and values. The
// daemon does not start with any of it.
func checkConfiguration(e *evidence) []Finding { return e.problems(e.configErr, Refuse) }

// checkPools holds the pools against the machine. It is the daemon that decides
// what to do about them: after a reboot into another machine it adapts what it
// can.
func checkPools(e *evidence) []Finding { return e.problems(e.poolsErr, Error) }

// problems turns each error of the configuration into a finding.
func (e *evidence) problems(err error, severity Severity) []Finding {
	var findings []Finding
	for _, err := range split(err) {
		f := Finding{Severity: severity, Subject: e.file, Found: err.Error()}
		if p, ok := errors.AsType[*config.Problem](err); ok {
			f.Subject, f.Found = located(p), p.Reason
			if p.Value != "" {
				f.Found, f.Remedy = strconv.Quote(p.Value), p.Reason
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// located is the place of a problem: file, line and key as far as there are any.
func located(p *config.Problem) string {
	place := p.File
	if p.Line > 0 {
		place += ":" + strconv.Itoa(p.Line)
	}
	if p.Key != "" {
		place += ": " + p.Key
	}
	return place
}

// split takes apart what errors.Join has put together.
func split(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, split(err)...)
	}
	return all
}

// pool is one of the configured pools with the key that it is configured by.
type pool struct {
	name, key string
	cpus      cpuset.Set
	// all marks a partition that overlaps the shared pool on purpose.
	all bool
}

// allPools lists the pools of the node that have CPUs of their own, guaranteed
// last. What is carved out of the shared pool is the shared pool's here, and
// where that extends over the partitions, they have their own CPUs still.
func (e *evidence) allPools() []pool {
	var list []pool
	shared := e.pools.Shared
	for _, partition := range e.pools.Partitions {
		p := pool{name: "workload type " + partition.Type, key: "partitions", cpus: partition.CPUs}
		for i, spec := range e.config.Pools.Partitions {
			if spec.Type == partition.Type {
				p.key, p.all = fmt.Sprintf("partitions[%d].cpus", i), spec.All
			}
		}
		if rest := shared.Difference(p.cpus); !p.all && !rest.IsEmpty() {
			shared = rest
		}
		list = append(list, p)
	}
	list = append(list, pool{name: "the shared pool", key: "shared.cpus", cpus: shared})
	if !e.pools.Guaranteed.IsEmpty() && !e.pools.FromShared {
		list = append(list, pool{name: "the guaranteed pool", key: "guaranteed.cpus", cpus: e.pools.Guaranteed})
	}
	return list
}

// checkOffline: what is offline is in no pool, and comes back into its pool by
// itself.
func checkOffline(e *evidence) []Finding {
	if e.pools.Offline.IsEmpty() {
		return nil
	}
	return []Finding{{
		Severity: Warning,
		Subject:  e.file,
		Found:    fmt.Sprintf("CPUs %s are in a pool, but offline: the pool is smaller than configured", e.pools.Offline),
		Remedy:   "write 1 to /sys/devices/system/cpu/cpuN/online of each, or take them out of the pool",
	}}
}

// checkSplitCores: two threads of one core share its execution units and its
// first caches, whatever pools they are in.
func checkSplitCores(e *evidence) []Finding {
	var findings []Finding
	list := e.allPools()
	for i, a := range list {
		for _, b := range list[i+1:] {
			if a.all || b.all {
				continue
			}
			var inA, inB cpuset.Set
			for _, core := range e.topology.Cores {
				if x, y := core.CPUs.Intersection(a.cpus), core.CPUs.Intersection(b.cpus); !x.IsEmpty() && !y.IsEmpty() {
					inA, inB = inA.Union(x), inB.Union(y)
				}
			}
			if inA.IsEmpty() {
				continue
			}
			findings = append(findings, Finding{
				Severity: Warning,
				Subject:  fmt.Sprintf("%s: %s, %s", e.file, a.key, b.key),
				Found: fmt.Sprintf("CPUs %s of %s and %s of %s are threads of the same cores and slow each other down",
					inA, a.name, inB, b.name),
				Remedy: "give all threads of a core to one pool",
			})
		}
	}
	return findings
}

// checkCPU0: the kernel keeps work on the boot CPU that can be moved from any
// other.
func checkCPU0(e *evidence) []Finding {
	if !e.pools.Guaranteed.Contains(0) {
		return nil
	}
	key := "guaranteed.cpus"
	if e.pools.FromShared {
		key = "guaranteed.from"
	}
	return []Finding{{
		Severity: Warning,
		Subject:  e.file + ": " + key,
		Found:    fmt.Sprintf("%s contains CPU 0, where the kernel runs timekeeping and interrupts that cannot be moved", e.pools.Guaranteed),
		Remedy:   "move CPU 0 to a management pool",
	}}
}

// checkIsolated: the scheduler does not balance load onto CPUs of isolcpus=, so
// that threads stay where they start.
func checkIsolated(e *evidence) []Finding {
	var findings []Finding
	for _, p := range e.allPools() {
		isolated := p.cpus.Intersection(e.topology.Isolated)
		if p.key == "guaranteed.cpus" || isolated.IsEmpty() {
			continue
		}
		findings = append(findings, Finding{
			Severity: Warning,
			Subject:  e.file + ": " + p.key,
			Found:    fmt.Sprintf("CPUs %s of %s are isolated at boot (isolcpus=): the scheduler does not spread threads over them", isolated, p.name),
			Remedy:   "take them out of isolcpus=, or give them to the guaranteed pool",
		})
	}
	return findings
}
