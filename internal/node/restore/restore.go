package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Options configures Restore and DryRestore.
type Options struct {
	Config   *config.Config
	Topology *topology.Topology
	// Environment describes the cluster of the node, if there is one.
	Environment nodestatus.Environment
	Log         *slog.Logger
}

// RestoreReport says what Restore has done.
type RestoreReport struct {
	Restored []undo.Original `json:"restored"`
	// Changes are the values that were not what they were, and have been put back;
	// with DryRun those that would be.
	Changes []Change `json:"changes"`
	DryRun  bool     `json:"dryRun,omitempty"`
	// Note says what stands in for a journal that is lost, or why there is nothing to do.
	Note    string            `json:"note,omitempty"`
	Gone    int               `json:"gone"` // originals whose cgroup has ended
	Differs []undo.Difference `json:"differs"`
	// Node is nil where the daemon does not show the node to a cluster.
	Node *NodeReport `json:"node,omitempty"`
	// Settings are those of the host outside of cgroups: interrupts and the like.
	Settings tune.Report `json:"settings"`
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
	unlock, err := hostenv.Lock(o.Config.RunDir)
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
	if r.Settings, tuneErr = RestoreSettings(ctx, o.Config, o.Topology, dry); tuneErr != nil {
		err = errors.Join(err, fmt.Errorf("settings of the host: %w", tuneErr))
	}
	return r, err
}

func restoreHost(ctx context.Context, o Options, dry bool) (RestoreReport, error) {
	name := hostenv.JournalPath(o.Config)
	j, state, err := undo.JudgeJournal(name)
	if state == undo.JournalUnread {
		return RestoreReport{}, err
	}
	if state == undo.JournalOfEarlierBoot && !partitionsLeft(o.Config.Isolation) {
		return RestoreReport{Note: "the machine has booted since values were changed: cgroups and what systemd had at run time ended with that"}, nil
	}
	lost := state == undo.JournalDamaged
	if state == undo.JournalMissing {
		if lost, err = undo.JournalMark(o.Config.RunDir, j.BootID).There(); err != nil {
			return RestoreReport{}, fmt.Errorf("there is no journal %s, and whether there was one cannot be told: %w", name, err)
		}
	}
	if len(j.Originals) == 0 && !lost && !partitionsLeft(o.Config.Isolation) {
		return RestoreReport{}, nil
	}
	h, closeHost, openErr := hostenv.Open(ctx, o.Config, o.Topology)
	if openErr != nil {
		return RestoreReport{}, errors.Join(err, openErr)
	}
	defer closeHost()
	note := ""
	if lost {
		var presumeErr error
		if j.Originals, presumeErr = presumed(&h, ctx, o, j); presumeErr != nil {
			return RestoreReport{}, errors.Join(err, presumeErr)
		}
		note = lostNote(name, err, j.Originals)
	}
	r, err := RestoreAs(&h, ctx, j, o.Config.Isolation, dry)
	r.Note = note
	return r, err
}

// RestoreAs is restore with another word on partitions that the journal does not know of.
// With cpuset they are others': a restore that said that something is wrong about them
// would say so for ever.
func RestoreAs(h *hostenv.Host, ctx context.Context, j undo.Document, isolation config.Isolation, dry bool) (RestoreReport, error) {
	r, err := changes(h, ctx, j)
	if !dry { // what could not be told before is no reason to leave anything
		changes := r.Changes
		r, err = HostRestore(h, ctx, j)
		r.Changes = made(changes, r.Differs)
	}
	if isolation == config.IsolationCPUSet || slices.ContainsFunc(j.Originals, isOfPartition) {
		return r, err
	}
	unrecorded, listErr := unrecorded(h)
	r.Differs = append(r.Differs, unrecorded...)
	return r, errors.Join(err, listErr)
}

func HostRestore(h *hostenv.Host, ctx context.Context, j undo.Document) (RestoreReport, error) {
	var parts []undo.Original
	var kubeletErr error
	j.Originals, kubeletErr = desired.AsKubelet(h, ctx, j.Originals)
	j.Originals = slices.DeleteFunc(slices.Clone(j.Originals), func(o undo.Original) bool {
		if isOfPartition(o) {
			parts = append(parts, o)
		}
		return isOfPartition(o)
	})
	// Partitions first: sets that overlap them break them.
	r, left := unpartition(h, ctx, withParking(h, parts))
	parkErr := removeParking(h, left)
	// A CRI update makes the runtime write the whole of its spec, so CPUs and memory
	// nodes come first and weight and quota after them.
	late := func(o undo.Original) int { return boolRank(o.File != cgroup.FileCPUs && o.File != cgroup.FileMems) }
	slices.SortStableFunc(j.Originals, func(a, b undo.Original) int { return cmp.Compare(late(a), late(b)) })
	failed := make(map[undo.OriginalKey]error)
	for _, o := range j.Originals {
		if err := putBack(h, ctx, o); err != nil {
			failed[o.Key()] = err
		}
	}
	rest := undo.Document{BootID: j.BootID, Accepted: j.Accepted, Originals: left}
	for _, o := range j.Originals {
		err := failed[o.Key()]
		st, readErr := undo.HeldBy(h, ctx, o)
		if errors.Is(readErr, cgroup.ErrGone) && err == nil {
			if r.Gone++; o.Unit != "" {
				rest.Originals = append(rest.Originals, o) // systemd keeps what was set for it until the machine boots
			}
			continue
		}
		if err = cmp.Or(err, readErr); err != nil {
			rest.Originals = append(rest.Originals, o)
		}
		if d, differs := undo.HostDifference(h, o, st, err); differs {
			r.Differs = append(r.Differs, d)
		} else {
			r.Restored = append(r.Restored, o)
		}
	}
	if len(rest.Originals) == 0 {
		return r, errors.Join(kubeletErr, parkErr, undo.JournalMark(h.RunDir, j.BootID).Remove(), undo.IgnoreMissing(os.Remove(h.JournalFile)))
	}
	return r, errors.Join(kubeletErr, parkErr, undo.Save(h.JournalFile, rest))
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// putBack writes an original: to the file, and to whoever would write over it.
func putBack(h *hostenv.Host, ctx context.Context, o undo.Original) error {
	ctx, cancel := context.WithTimeout(ctx, hostenv.UpdateTimeout)
	defer cancel()
	if o.Unit != "" {
		return revert(h, ctx, o)
	}
	value, seal, err := hostUndo(h, o)
	if err != nil {
		return err
	}
	err = h.Cgroups.Write(o.Path, o.File, value)
	if errors.Is(err, cgroup.ErrGone) && o.Container == "" {
		return nil // it has taken its settings with it
	}
	if seal == nil {
		return err
	}
	sealErr := h.Record(ctx, *seal)
	if hostenv.IsGone(sealErr) {
		sealErr = nil
	}
	if sealErr == nil {
		return nil // it has written the file too
	}
	return errors.Join(err, sealErr)
}

// revert gives a systemd unit a property back, whether or not it runs.
func revert(h *hostenv.Host, ctx context.Context, o undo.Original) error {
	if h.Units == nil {
		return fmt.Errorf("no systemd to give %s its %s back", o.Unit, o.File)
	}
	err := h.Units.Revert(ctx, o.Unit, undo.Properties([]undo.Original{o}), h.Nodes)
	if errors.Is(err, cgroup.ErrGone) {
		return nil // there is no such unit any more
	}
	return err
}

// undo returns the value to write to the file and the write that records it, nil
// if nobody does.
func hostUndo(h *hostenv.Host, o undo.Original) (value string, seal *cgroup.Write, err error) {
	w := cgroup.Write{Path: o.Path, Container: o.Container, Via: cgroup.DBus, Reason: "restore"}
	value = o.Value
	switch o.File {
	case cgroup.FileCPUs:
		cpus, err := cpuset.Parse(o.Value)
		if err != nil {
			return "", nil, fmt.Errorf("journal: original of %s in %s: %w", o.File, o.Path, err)
		}
		if cpus.IsEmpty() {
			cpus = h.Possible // kernels before 7.0 refuse to clear, and runtimes cannot
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
			nodes = h.Nodes // as for CPUs
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
		if w.Value, err = UnitQuota(o.Value); err != nil {
			return "", nil, fmt.Errorf("journal: original of %s in %s: %w", o.File, o.Path, err)
		}
	default:
		return "", nil, fmt.Errorf("journal: original of unknown file %q in %s", o.File, o.Path)
	}
	if _, isUnit := o.Path.Unit(); h.Units == nil || !isUnit {
		return value, nil, nil
	}
	return value, &w, nil
}

// UnitQuota translates cpu.max to CPUQuotaPerSecUSec, microseconds a second.
func UnitQuota(value string) (string, error) {
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
