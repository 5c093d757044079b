package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/tune"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// RestoreReport says what Restore has done.
type RestoreReport struct {
	Restored []Original `json:"restored"`
	// Changes are the values that were not what they were, and have been put back;
	// with DryRun those that would be.
	Changes []Change `json:"changes"`
	DryRun  bool     `json:"dryRun,omitempty"`
	// Note says what stands in for a journal that is lost, or why there is nothing to do.
	Note    string       `json:"note,omitempty"`
	Gone    int          `json:"gone"` // originals whose cgroup has ended
	Differs []Difference `json:"differs"`
	// Node is nil where the daemon does not show the node to a cluster.
	Node *NodeReport `json:"node,omitempty"`
	// Settings are those of the host outside of cgroups: interrupts and the like.
	Settings tune.Report `json:"settings"`
}

// Difference is a file that does not hold its original value afterwards.
type Difference struct {
	Original
	Now string `json:"now"`
	// Harmless says that the difference changes nothing: all CPUs, or NUMA nodes,
	// instead of none named, which the kernel treats alike.
	Harmless bool   `json:"harmless"`
	Reason   string `json:"reason"`
}

// DryRestore says what Restore would do, and writes nothing. A daemon may run.
func DryRestore(ctx context.Context, o Options) (RestoreReport, error) {
	r, err := restoreAll(ctx, o, true)
	r.DryRun = true
	return r, err
}

// Restore puts back the recorded originals of this boot, and takes back what the
// cluster is shown of the node. No daemon may run: it takes the node's writer lock. A
// value that cannot be put back does not keep the others from it, stays in the journal
// and is reported as a difference.
func Restore(ctx context.Context, o Options) (RestoreReport, error) {
	unlock, err := Lock(o.Config.RunDir)
	if err != nil {
		return RestoreReport{}, err
	}
	defer func() { _ = unlock() }() // the kernel does it anyway
	r, err := restoreAll(ctx, o, false)
	r.Node = withdraw(ctx, o)
	return r, err
}

// restoreAll is about cgroups and units, and about the host's other settings, whatever
// becomes of the first.
func restoreAll(ctx context.Context, o Options, dry bool) (RestoreReport, error) {
	r, err := restoreHost(ctx, o, dry)
	var tuneErr error
	if r.Settings, tuneErr = RestoreSettings(ctx, o, dry); tuneErr != nil {
		err = errors.Join(err, fmt.Errorf("settings of the host: %w", tuneErr))
	}
	return r, err
}

func restoreHost(ctx context.Context, o Options, dry bool) (RestoreReport, error) {
	name := journalName(o.Config)
	j, state, err := judgeJournal(name)
	if state == journalUnread {
		return RestoreReport{}, err
	}
	if state == journalOfEarlierBoot && !partitionsLeft(o.Config.Isolation) {
		return RestoreReport{Note: "the machine has booted since values were changed: cgroups and what systemd had at run time ended with that"}, nil
	}
	lost := state == journalDamaged
	if state == journalMissing {
		if lost, err = journalMark(o.Config.RunDir, j.BootID).There(); err != nil {
			return RestoreReport{}, fmt.Errorf("there is no journal %s, and whether there was one cannot be told: %w", name, err)
		}
	}
	if len(j.Originals) == 0 && !lost && !partitionsLeft(o.Config.Isolation) {
		return RestoreReport{}, nil
	}
	h, closeHost, openErr := openHost(ctx, o.Config, o.Topology)
	if openErr != nil {
		return RestoreReport{}, errors.Join(err, openErr)
	}
	defer closeHost()
	note := ""
	if lost {
		var presumeErr error
		if j.Originals, presumeErr = h.presumed(ctx, o, j); presumeErr != nil {
			return RestoreReport{}, errors.Join(err, presumeErr)
		}
		note = lostNote(name, err, j.Originals)
	}
	r, err := h.restoreAs(ctx, j, o.Config.Isolation, dry)
	r.Note = note
	return r, err
}

// restoreAs is restore with another word on partitions that the journal does not know of.
// With cpuset they are others': a restore that said that something is wrong about them
// would say so for ever.
func (h *host) restoreAs(ctx context.Context, j Journal, isolation config.Isolation, dry bool) (RestoreReport, error) {
	r, err := h.changes(ctx, j)
	if !dry { // what could not be told before is no reason to leave anything
		changes := r.Changes
		r, err = h.restore(ctx, j)
		r.Changes = made(changes, r.Differs)
	}
	if isolation == config.IsolationCPUSet || slices.ContainsFunc(j.Originals, isOfPartition) {
		return r, err
	}
	unrecorded, listErr := h.unrecorded()
	r.Differs = append(r.Differs, unrecorded...)
	return r, errors.Join(err, listErr)
}

func (h *host) restore(ctx context.Context, j Journal) (RestoreReport, error) {
	var parts []Original
	var kubeletErr error
	j.Originals, kubeletErr = h.asKubelet(ctx, j.Originals)
	j.Originals = slices.DeleteFunc(slices.Clone(j.Originals), func(o Original) bool {
		if isOfPartition(o) {
			parts = append(parts, o)
		}
		return isOfPartition(o)
	})
	// Partitions first: sets that overlap them break them.
	r, left := h.unpartition(ctx, h.withParking(parts))
	parkErr := h.removeParking(left)
	// A CRI update makes the runtime write the whole of its spec, so CPUs and memory
	// nodes come first and weight and quota after them.
	late := func(o Original) int { return boolRank(o.File != cgroup.FileCPUs && o.File != cgroup.FileMems) }
	slices.SortStableFunc(j.Originals, func(a, b Original) int { return cmp.Compare(late(a), late(b)) })
	failed := make(map[originalKey]error)
	for _, o := range j.Originals {
		if err := h.putBack(ctx, o); err != nil {
			failed[o.key()] = err
		}
	}
	rest := Journal{BootID: j.BootID, Accepted: j.Accepted, Originals: left}
	for _, o := range j.Originals {
		err := failed[o.key()]
		st, readErr := h.heldBy(ctx, o)
		if errors.Is(readErr, cgroup.ErrGone) && err == nil {
			if r.Gone++; o.Unit != "" {
				rest.Originals = append(rest.Originals, o) // systemd keeps what was set for it until the machine boots
			}
			continue
		}
		if err = cmp.Or(err, readErr); err != nil {
			rest.Originals = append(rest.Originals, o)
		}
		if d, differs := h.difference(o, st, err); differs {
			r.Differs = append(r.Differs, d)
		} else {
			r.Restored = append(r.Restored, o)
		}
	}
	if len(rest.Originals) == 0 {
		return r, errors.Join(kubeletErr, parkErr, journalMark(h.files, j.BootID).Remove(), ignoreMissing(os.Remove(h.journal)))
	}
	return r, errors.Join(kubeletErr, parkErr, SaveJournal(h.journal, rest))
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// putBack writes an original: to the file, and to whoever would write over it.
func (h *host) putBack(ctx context.Context, o Original) error {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	if o.Unit != "" {
		return h.revert(ctx, o)
	}
	value, seal, err := h.undo(o)
	if err != nil {
		return err
	}
	err = h.cgroups.Write(o.Path, o.File, value)
	if errors.Is(err, cgroup.ErrGone) && o.Container == "" {
		return nil // it has taken its settings with it
	}
	if seal == nil {
		return err
	}
	sealErr := h.seal(ctx, *seal)
	if isGone(sealErr) {
		sealErr = nil
	}
	if sealErr == nil {
		return nil // it has written the file too
	}
	return errors.Join(err, sealErr)
}

// revert gives a systemd unit a property back, whether or not it runs.
func (h *host) revert(ctx context.Context, o Original) error {
	if h.units == nil {
		return fmt.Errorf("no systemd to give %s its %s back", o.Unit, o.File)
	}
	err := h.units.Revert(ctx, o.Unit, properties([]Original{o}), h.nodes)
	if errors.Is(err, cgroup.ErrGone) {
		return nil // there is no such unit any more
	}
	return err
}

// heldBy is what a cgroup holds now; of a unit it is what systemd would give it.
func (h *host) heldBy(ctx context.Context, o Original) (cgroup.State, error) {
	if o.Unit == "" || h.units == nil {
		return h.cgroups.Read(o.Path)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	st, err := h.units.Properties(ctx, o.Unit)
	return cgroup.State{CPUs: st.CPUs, Mems: st.Mems, Weight: st.Weight}, err
}

// undo returns the value to write to the file and the write that records it, nil
// if nobody does.
func (h *host) undo(o Original) (value string, seal *cgroup.Write, err error) {
	w := cgroup.Write{Path: o.Path, Container: o.Container, Via: cgroup.DBus, Reason: "restore"}
	value = o.Value
	switch o.File {
	case cgroup.FileCPUs:
		cpus, err := cpuset.Parse(o.Value)
		if err != nil {
			return "", nil, fmt.Errorf("journal: original of %s in %s: %w", o.File, o.Path, err)
		}
		if cpus.IsEmpty() {
			cpus = h.possible // kernels before 7.0 refuse to clear, and runtimes cannot
		}
		value = cpus.String()
		w.Property, w.Value = cgroup.UnitCPUs, value
		if o.Container != "" {
			w.Via, w.Property = cgroup.CRI, cgroup.CRICPUs
			return value, &w, nil
		}
	case cgroup.FileMems:
		nodes, err := cpuset.Parse(o.Value)
		if err != nil {
			return "", nil, fmt.Errorf("journal: original of %s in %s: %w", o.File, o.Path, err)
		}
		if nodes.IsEmpty() {
			nodes = h.nodes // as for CPUs
		}
		value = nodes.String()
		w.Property, w.Value = cgroup.UnitMems, value
		if o.Container != "" {
			w.Via, w.Property = cgroup.CRI, cgroup.CRIMems
			return value, &w, nil
		}
	case cgroup.FileWeight:
		if o.Value == "0" {
			return "", nil, fmt.Errorf("journal: original of %s in %s: weight 0", o.File, o.Path)
		}
		w.Property, w.Value = cgroup.UnitWeight, o.Value
	case cgroup.FileMax:
		w.Property = cgroup.UnitQuota
		if w.Value, err = unitQuota(o.Value); err != nil {
			return "", nil, fmt.Errorf("journal: original of %s in %s: %w", o.File, o.Path, err)
		}
	default:
		return "", nil, fmt.Errorf("journal: original of unknown file %q in %s", o.File, o.Path)
	}
	if _, isUnit := o.Path.Unit(); h.units == nil || !isUnit {
		return value, nil, nil
	}
	return value, &w, nil
}

// unitQuota translates cpu.max to CPUQuotaPerSecUSec, microseconds a second.
func unitQuota(value string) (string, error) {
	q, p, ok := strings.Cut(value, " ")
	if q == cgroup.ValueMax {
		return cgroup.ValueInf, nil
	}
	quota, err1 := strconv.ParseUint(q, 10, 63)
	period, err2 := strconv.ParseUint(p, 10, 31)
	if !ok || err1 != nil || err2 != nil || period == 0 || quota > 1<<40 {
		return "", fmt.Errorf("%q is not a value of cpu.max", value)
	}
	return strconv.FormatUint(quota*1_000_000/period, 10), nil
}

// difference compares a file with its original.
func (h *host) difference(o Original, st cgroup.State, failure error) (Difference, bool) {
	d := Difference{Original: o}
	switch o.File {
	case cgroup.FileCPUs:
		d.Now = st.CPUs.String()
		d.Harmless = o.Value == "" && st.CPUs.Equal(h.possible)
	case cgroup.FileMems:
		d.Now = st.Mems.String()
		d.Harmless = o.Value == "" && st.Mems.Equal(h.nodes)
	case cgroup.FileWeight:
		if d.Now = strconv.FormatUint(st.Weight, 10); o.Unit != "" {
			d.Now = weightValue(st.Weight)
		}
	case cgroup.FileMax:
		d.Now = maxValue(st.Quota, st.Period)
	}
	switch {
	case failure != nil:
		d.Reason = failure.Error()
		return d, true
	case d.Now == o.Value:
		return d, false
	case d.Harmless:
		d.Reason = "an empty set cannot be recorded again; all CPUs, or NUMA nodes, are the same to the kernel"
	default:
		d.Reason = "somebody else has written it since, or rounded it"
	}
	return d, true
}
