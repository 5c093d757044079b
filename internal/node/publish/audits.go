package publish

import (
	"fmt"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/auditor"
	"github.com/cpupoold/cpupoold/internal/node/clusterstate"
	"github.com/cpupoold/cpupoold/internal/node/liveaudit"
	"github.com/cpupoold/cpupoold/internal/node/planning"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Handover ends the live audit of the CPUs that a new plan gives to another owner. Call it after the
// decision of a pass and before its first write.
func (p *Publisher) Handover(pass *planning.Pass) {
	if p.Live.IsOn() {
		p.Live.Begin(p.ownership(pass))
	}
}

// showAudits passes the owners of CPUs after a pass to the audits. While writes wait for the journal,
// the pass is not complete, and no CPU gets an owner in the live audit.
func (p *Publisher) showAudits(pass *planning.Pass) {
	c := p.Settings.Config
	p.Live.Switch(c.AuditLive && !p.Host.Observes)
	scene := auditor.Scene{Interval: c.AuditInterval}
	live := p.Live.IsOn() && !p.Journal.Blocks()
	if scene.Interval > 0 || live {
		scene.Ownership = p.ownership(pass)
	}
	if live {
		p.Live.End(scene.Ownership, func(at string) (cpuset.Set, bool) {
			now := p.Cache.Current(cgroup.Path(at))
			return now.Effective, now.Exists
		})
	}
	p.auditor.Show(scene)
}

func (p *Publisher) ownership(pass *planning.Pass) audit.Ownership {
	return p.Settings.Ownership(pass.Plan, p.Objects, pass.Hosts, pass.Auxiliary)
}

const codeNoLiveAudit pools.Code = "LiveAuditUnavailable"

// liveProblems returns a problem for each owner with foreign user tasks in the last ten minutes, and a problem of
// the node if the live audit is not possible. The text goes to log, status and history of the node, and
// [clusterstate.Facts] has another one for the cluster.
func (p *Publisher) liveProblems() (all []pools.Problem) {
	for _, f := range p.Live.Findings() {
		found := pools.Problem{Pod: f.Owner.Pod}
		if f.Owner.Pod == "" {
			found.Unit = f.Owner.Name
		}
		p.Objects.NameOwner(&found, cgroup.Path(f.Owner.Cgroup))
		if f.Owner.Pod != "" && found.PodUID == "" {
			continue // the pod has ended, and its problem with it
		}
		if f.Owner.Name == "" {
			found.Container = ""
		}
		runs := ""
		if e := p.Objects.ContainerAt(cgroup.Path(f.Task.Cgroup)); e != nil {
			if pod := e.Pod(); pod != nil {
				runs = fmt.Sprintf(" of pod %s, container %s", pod.Name(), e.Container.Name)
			}
		}
		on := fmt.Sprintf("CPU %s is exclusive, and a task of another cgroup ran on it", f.CPUs)
		if f.CPUs.Len() > 1 {
			on = fmt.Sprintf("CPUs %s are exclusive, and tasks of other cgroups ran on them", f.CPUs)
		}
		found.Reason = pools.Reason{Code: clusterstate.CodeForeignTask, Text: fmt.Sprintf(
			"%s: %s%s; confine host services with hostSlices, or set guaranteed.isolation: partition. `cpupoold audit --live 30s` lists all such tasks",
			on, liveaudit.Describe(f.Task), runs)}
		all = append(all, found)
	}
	if r := p.Live.Result(); r != nil && r.Unavailable != "" {
		all = append(all, pools.Problem{Reason: pools.Reason{Code: codeNoLiveAudit, Text: fmt.Sprintf(
			"audit.live is true, and the kernel does not load the program: %s; until then, only the sampled audit runs", r.Unavailable)}})
	}
	return all
}
