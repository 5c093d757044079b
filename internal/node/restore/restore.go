package restore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/hosttuning"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/node/service"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/internal/node/undo"
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
	// Force restores although ResourceClaims are prepared, and forgets them.
	Force bool
}

// Report is the result of Restore.
type Report struct {
	Restored []undo.Original `json:"restored"`
	// Changes are the restored values that differed; after DryRestore, the values to restore.
	Changes []Change `json:"changes"`
	DryRun  bool     `json:"dryRun,omitempty"`
	// Note explains what replaces a lost journal, or why no value is restored.
	Note string `json:"note,omitempty"`
	Gone int    `json:"gone"` // number of originals of cgroups that have ended
	// Claims are the ResourceClaims of the journal, by namespace/name. Restore has forgotten them. After
	// DryRestore, they prevent a restore without Force.
	Claims  []string          `json:"claims,omitempty"`
	Differs []undo.Difference `json:"differs"`
	// Node is nil if the daemon does not report the node to a cluster.
	Node *NodeReport `json:"node,omitempty"`
	// Settings are the host settings outside of cgroups, such as interrupts.
	Settings tune.Report `json:"settings"`
}

// DryRestore returns the report of Restore without a write. A daemon may run.
func DryRestore(ctx context.Context, o Options) (Report, error) {
	r, err := restoreAll(ctx, o, true)
	r.DryRun = true
	return r, err
}

// Restore writes the journal's originals of this boot, and withdraws the resources that
// the node shows to the cluster. It takes the node's writer lock, so no daemon may run. While
// ResourceClaims are prepared, it changes nothing without Force, and returns an error. An
// original that cannot be written stays in the journal and is reported as a difference; the
// other originals are restored.
func Restore(ctx context.Context, o Options) (Report, error) {
	unlock, err := service.Lock(o.Config.RunDir)
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = unlock() }() // the kernel unlocks when the process ends
	if err := checkClaims(o); err != nil {
		return Report{}, err
	}
	r, err := restoreAll(ctx, o, false)
	r.Node = withdraw(ctx, o)
	return r, err
}

// restoreAll restores host settings also after an error with cgroups and units.
func restoreAll(ctx context.Context, o Options, dryRun bool) (Report, error) {
	r, err := restoreHost(ctx, o, dryRun)
	var tuneErr error
	if r.Settings, tuneErr = restoreSettings(ctx, o.Config, o.Topology, dryRun); tuneErr != nil {
		err = errors.Join(err, fmt.Errorf("host settings: %w", tuneErr))
	}
	return r, err
}

func restoreHost(ctx context.Context, o Options, dryRun bool) (Report, error) {
	file := undo.File{Name: o.Config.JournalFile(), RunDir: o.Config.RunDir}
	j, err := file.Find()
	if err != nil {
		return Report{}, err
	}
	r := Report{Claims: namesOf(j.Claims)}
	if j.EarlierBoot {
		r.Note = "the machine has booted since values were changed: cgroups and run-time properties of systemd ended with the earlier boot"
	}
	if (j.EarlierBoot || len(j.Originals) == 0 && !j.Lost) && !partitionsLeft(o.Config.Isolation) {
		if dryRun || len(j.Claims) == 0 {
			return r, nil
		}
		return r, file.Remove(j.BootID)
	}
	h, closeHost, openErr := hostenv.Open(ctx, o.Config, o.Topology)
	if openErr != nil {
		return Report{}, errors.Join(j.Damage, openErr)
	}
	defer closeHost()
	note := ""
	if j.Lost {
		var presumeErr error
		if j.Originals, presumeErr = preview.Presume(ctx, &h, o.Config, o.Topology, j.BootID, o.Log); presumeErr != nil {
			return Report{}, errors.Join(j.Damage, fmt.Errorf("find the daemon's changes without a journal: %w", presumeErr))
		}
		note = lostNote(file.Name, j.Damage, j.Originals)
	} else if j.Damage != nil {
		note = fmt.Sprintf("%v: the originals in %s alone are restored", j.Damage, file.Name)
	}
	r, err = OnHost(ctx, &h, j, o.Config.Isolation, dryRun)
	r.Note, r.Claims = note, namesOf(j.Claims)
	return r, err
}

func lostNote(name string, damage error, o []undo.Original) string {
	switch {
	case damage != nil:
		return fmt.Sprintf("%v: restoring defaults of kernel, systemd and kubelet instead", damage)
	case len(o) == 0:
		return fmt.Sprintf("the journal %s is lost, and no value is one that the daemon writes: nothing to restore", name)
	}
	return fmt.Sprintf("the journal %s is lost: values that the daemon writes are restored to defaults of kernel, systemd and kubelet", name)
}

// OnHost restores the originals of a journal on an open host, or with dryRun lists the
// changes. Partitions that the journal does not contain count as differences, except with
// isolation cpuset: there another program has made them.
func OnHost(ctx context.Context, h *hostenv.Host, j undo.Document, isolation config.Isolation, dryRun bool) (Report, error) {
	r, err := changes(ctx, h, j)
	if !dryRun { // an error of changes hinders no write; the restore reports it again
		changes := r.Changes
		r, err = restoreOriginals(ctx, h, j)
		r.Changes = made(changes, r.Differs)
	}
	if isolation == config.IsolationCPUSet || slices.ContainsFunc(j.Originals, isOfPartition) {
		return r, err
	}
	unrecorded, listErr := unrecorded(h)
	r.Differs = append(r.Differs, unrecorded...)
	return r, errors.Join(err, listErr)
}

// restoreSettings restores settings outside of cgroups. Without dryRun the caller holds the lock.
func restoreSettings(ctx context.Context, c *config.Config, t *topology.Topology, dryRun bool) (tune.Report, error) {
	var exclusive cpuset.Set
	var s desired.Settings
	if _, err := s.Begin(c, t, nil); err == nil {
		exclusive = s.Ownable()
	}
	r, _, err := hosttuning.Restoring(c, tune.Machine{Possible: t.Possible, Online: t.Online}, exclusive)
	if err != nil {
		return tune.Report{}, err
	}
	return tune.Restore(ctx, r, dryRun)
}

// NodeReport holds the resources that were withdrawn from a Node.
type NodeReport struct {
	Name      string   `json:"name"`
	Withdrawn []string `json:"withdrawn"`       // resources
	Error     string   `json:"error,omitempty"` // why some were not
}

// withdraw returns nil if the daemon does not report the node to a cluster.
func withdraw(ctx context.Context, o Options) *NodeReport {
	options, err := nodestatus.OptionsFor(o.Config, o.Environment, o.Log)
	switch {
	case err != nil:
		return &NodeReport{Name: o.Config.Node.Name, Error: err.Error()}
	case options == nil:
		return nil
	}
	r := &NodeReport{Name: options.Name}
	if r.Withdrawn, err = nodestatus.Withdraw(ctx, *options, o.Config.Names()); err != nil {
		r.Error = err.Error()
	}
	return r
}
