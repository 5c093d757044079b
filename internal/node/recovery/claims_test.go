package recovery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/recovery"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// TestClaims checks that claims keep the CPUs of the journal, at the start and later. No container or
// unit gets them, even if a change of the configuration made them a part of the guaranteed pool.
// A container that uses a claim gets no other CPUs, and does not show the shared set.
func TestClaims(t *testing.T) {
	const unit = "du.service"
	for name, c := range map[string]struct {
		fixed        bool     // guaranteed.cpus is a list
		infra        bool     // pause containers run elsewhere
		mixed        bool     // the container requests shared CPUs too
		uses         []string // containers that use the claim
		claim, away  string
		app, unit    string // CPUs in the kernel; empty if it does not exist
		besteffort   string
		owner        string // journal's CPUs of a container that has ended
		start, later string // later has only the owners in the journal that are in it
	}{
		"container of a claim":               {uses: []string{"app"}, claim: "4-5", app: "4-5", start: "claim 4-5"},
		"the same with a list":               {fixed: true, uses: []string{"app"}, claim: "4-5", app: "4-5", start: "claim 4-5"},
		"a container that is not known":      {claim: "4-5", app: "4-5", start: "claim 4-5"},
		"the same with a list, not known":    {fixed: true, claim: "4-5", app: "4-5", start: "claim 4-5"},
		"some CPUs of a claim":               {fixed: true, claim: "4-5", app: "5-6", start: "claim 4-5"},
		"offline CPUs of a claim":            {fixed: true, claim: "4", away: "5", app: "5-6", start: "claim 4 away 5"},
		"moved to CPUs of another container": {fixed: true, uses: []string{"app"}, claim: "4-5", app: "6-7", owner: "6-7", start: "claim 4-5; x/ended 6-7"},
		"moved to free CPUs":                 {fixed: true, uses: []string{"app"}, claim: "4-5", app: "6-7", start: "claim 4-5"},
		"another container":                  {uses: []string{"log"}, claim: "4-5", app: "6-7", start: "claim 4-5; u/app 6-7"},
		"unit on CPUs of a claim":            {claim: "4-5", unit: "4-5", start: "claim 4-5"},
		"unit on other CPUs":                 {claim: "4-5", unit: "6-7", start: "/du.service 6-7; claim 4-5"},
		"widened, with shared CPUs":          {mixed: true, claim: "6", app: "2-6", start: "claim 6; u/app 4-5"},
		"owner in the journal has some":      {claim: "4-5", owner: "5-6", start: "claim 4-5; x/ended 6", later: "claim 4-5; x/ended 5-6"},
		// Without the claim, the container in the shared pool would show that the unit has CPUs.
		"shows the shared set": {infra: true, claim: "7", unit: "4-6", besteffort: "2-3", start: "/du.service 4-6; claim 7"},
		"shows no shared set":  {infra: true, uses: []string{"log"}, claim: "7", unit: "4-6", besteffort: "2-3", start: "claim 7"},
	} {
		t.Run(name, func(t *testing.T) {
			p := carvedPools()
			p.Floor = 3
			if c.fixed {
				p = fixedPools()
			}
			if c.infra {
				p.Partitions, p.Infra = []pools.Partition{{Type: "management", CPUs: parsed(t, "0-1")}}, "management"
			}
			if c.unit != "" {
				p.Units = []pools.UnitSpec{{Name: unit, CPUs: parsed(t, c.unit).Len()}}
			}
			kernel := make(map[cgroup.Path]string)
			read := func(path cgroup.Path) (cgroup.State, error) {
				text, ok := kernel[path]
				if !ok {
					text = map[bool]string{false: "2-3", true: "0-1"}[c.infra] // pause containers
				}
				return cgroup.State{Path: path, CPUs: parsed(t, text)}, nil
			}
			start := func() *inventory.Inventory {
				m := inventory.New(cgroup.DriverSystemd)
				put := func(slice, uid, name, cpus string, requested cri.Resources) {
					pod := cri.Pod{ID: uid, UID: uid, Ready: true, CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:pause" + uid}
					if c.mixed {
						pod.Annotations = map[string]string{"cpu-shared.crio.io/" + name: "enable"}
					}
					m.PutPod(lookup.PodStatus{Pod: pod})
					m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: name, PodID: uid, Name: name, State: cri.Running,
						CgroupsPath: slice + ":cri-containerd:" + name, Requested: requested}})
					kernel[m.Objects().Container(name).Path] = cpus
				}
				if c.app != "" {
					put("kubepods-podu.slice", "u", "app", c.app, nodefixture.WholeCPUs(2))
				}
				if c.besteffort != "" {
					put("kubepods-besteffort-podu.slice", "u", "log", c.besteffort, cri.Resources{Shares: 2})
				}
				if c.unit != "" {
					path := cgroup.Path("system.slice/" + unit)
					m.PutUnit(lookup.UnitStatus{Name: unit, Unit: systemd.Unit{Name: unit, Path: path}})
					kernel[path] = c.unit
				}
				return m
			}
			claims := []pools.Claim{{UID: "c", PodUID: "u", Containers: c.uses}}
			held := []pools.Assignment{{Key: pools.Key{Claim: "c", Container: "cpus|numa0|"}, CPUs: parsed(t, c.claim), Away: parsed(t, c.away)}}
			if c.owner != "" {
				held = append(held, pools.Assignment{Key: pools.Key{PodUID: "x", Container: "ended"}, CPUs: parsed(t, c.owner)})
			}
			if c.later == "" {
				c.later = c.start
			}
			s := desired.Settings{Pools: p}
			if d := cmp.Diff(c.start, texts(recovery.Assignments(start().Objects(), read, held, claims, &s))); d != "" {
				t.Errorf("at the start (-want +got):\n%s", d)
			}
			m := start()
			if d := cmp.Diff(c.later, texts(recovery.Late(m.Objects(), m.TakeUnrecovered(), read, held, claims, &s))); d != "" {
				t.Errorf("later (-want +got):\n%s", d)
			}
		})
	}
}

// texts returns assignments as text, sorted.
func texts(all []pools.Assignment) string {
	var lines []string
	for _, a := range all {
		line := fmt.Sprintf("%s/%s %s", a.PodUID, a.Container, a.CPUs)
		if a.Claim != "" {
			line = "claim " + a.CPUs.String()
		}
		if !a.Away.IsEmpty() {
			line += " away " + a.Away.String()
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// TestClaimsOfAnEarlierBoot checks that the record of an exited container counts after a reboot,
// when the journal has claims alone.
func TestClaimsOfAnEarlierBoot(t *testing.T) {
	m := inventory.New(cgroup.DriverSystemd)
	slice := "kubepods-podu.slice"
	m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p"}})
	m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "c", PodID: "p", Name: "app", State: cri.Exited,
		CgroupsPath: slice + ":cri-containerd:c", Requested: nodefixture.WholeCPUs(2), Recorded: cri.Resources{CPUs: "6-7"}}})
	read := func(cgroup.Path) (cgroup.State, error) { return cgroup.State{}, cgroup.ErrGone }
	ofClaim := pools.Assignment{Key: pools.Key{Claim: "c", Container: "cpus|numa0|"}, CPUs: parsed(t, "1")}
	ofPod := pools.Assignment{Key: pools.Key{PodUID: "x", Container: "other"}, CPUs: parsed(t, "4")}
	s := desired.Settings{Pools: fixedPools()}
	for want, journal := range map[string][]pools.Assignment{
		"claim 1; u/app 6-7": {ofClaim},
		"claim 1; x/other 4": {ofClaim, ofPod}, // the journal knows all owners
	} {
		if d := cmp.Diff(want, texts(recovery.Assignments(m.Objects(), read, journal, nil, &s))); d != "" {
			t.Errorf("assignments (-want +got):\n%s", d)
		}
	}
}
