package claimdriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const (
	cleanUpInterval = 5 * time.Minute
	apiTimeout      = 10 * time.Second
	// fileAge is the age from which files of unknown claims are removed. A younger file can belong to a
	// claim that was prepared after the driver asked for the claims.
	fileAge = time.Minute
)

// cleanUp ends orphans, restores the files of claims, and removes the files of other claims. It does so
// after the daemon's first answer, and then at intervals.
func (d *driver) cleanUp(ctx context.Context) {
	for ctx.Err() == nil {
		now, changed := d.watch.now()
		if now.claims == nil {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		if err := d.cleanUpOnce(ctx); err != nil && ctx.Err() == nil {
			d.count.failed("cleanup")
			d.Log.Warn("clean up claims; the next try is in 5 minutes", "error", err)
		}
		sleep(ctx, cleanUpInterval)
	}
}

func (d *driver) cleanUpOnce(ctx context.Context) error {
	now, err := d.daemon.Claims(ctx, 0, control.Wait{})
	if err != nil {
		return err
	}
	var errs []error
	for i := range now.Claims {
		c := &now.Claims[i]
		if mayBeOrphan(c) {
			ended, err := d.endOrphan(ctx, types.UID(c.UID))
			if errs = append(errs, err); ended {
				continue
			}
		}
		errs = append(errs, d.restoreFile(ctx, c))
	}
	if now, err = d.daemon.Claims(ctx, 0, control.Wait{}); err != nil {
		return errors.Join(append(errs, err)...)
	}
	known, names := make(map[string]bool), make(map[string]bool)
	for i := range now.Claims {
		known[now.Claims[i].UID], names[now.Claims[i].Namespace+"_"+now.Claims[i].Name] = true, true
	}
	return errors.Join(append(errs, d.files.RemoveOthers(known, fileAge), removeMetadata(d.metadata, names), d.removeSockets(ctx))...)
}

// mayBeOrphan reports whether the pod of a claim is not on the node. The claim keeps the names of its
// containers until it ends, so they do not count. The daemon does not end a claim while a container of it runs.
func mayBeOrphan(c *inspect.Claim) bool { return c.Pod == "" }

// find returns a claim as the daemon has it now, nil if it has ended.
func (d *driver) find(ctx context.Context, uid types.UID) (*inspect.Claim, error) {
	now, err := d.daemon.Claims(ctx, 0, control.Wait{})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(now.Claims, func(c inspect.Claim) bool { return c.UID == string(uid) })
	if i < 0 {
		return nil, nil
	}
	return &now.Claims[i], nil
}

// restoreFile writes the CDI file of a claim, for example after its loss. A claim without CPUs keeps its file,
// because the daemon refuses its containers.
func (d *driver) restoreFile(ctx context.Context, c *inspect.Claim) error {
	if cpus := cpusOf(c); cpus.IsEmpty() || d.files.Has(c.UID, cpus) {
		return nil
	}
	unlock, err := d.locks.lock(ctx, types.UID(c.UID))
	if err != nil {
		return err
	}
	defer unlock()
	now, err := d.find(ctx, types.UID(c.UID))
	if err != nil || now == nil { // it may have ended, and another preparation may have given it other CPUs
		return err
	}
	cpus := cpusOf(now)
	if cpus.IsEmpty() || d.files.Has(c.UID, cpus) {
		return nil
	}
	d.Log.Warn("CDI file of a claim is written again", "claim", c.Full(), "uid", c.UID)
	return d.files.Write(c.UID, cpus)
}

func cpusOf(c *inspect.Claim) (all cpuset.Set) {
	for _, p := range c.Parts {
		all = all.Union(p.CPUs)
	}
	return all
}

// endEarlier ends the preparation of a claim for an earlier pod. It reports whether it did so. The caller
// has the claim from the API server, reserved for another pod alone, and holds its lock.
func (d *driver) endEarlier(ctx context.Context, uid, pod types.UID) bool {
	c, err := d.find(ctx, uid)
	if err != nil || c == nil || !mayBeOrphan(c) || c.PodUID == string(pod) {
		return false
	}
	return d.endFor(ctx, c, "the claim is reserved for another pod") == nil
}

// endFor ends a claim, unless it has been prepared for another pod since c was read. During an update, the other
// instance of the driver does not wait for the lock. For the same reason, the files of the claim stay: the last part
// of the cleanup removes them.
func (d *driver) endFor(ctx context.Context, c *inspect.Claim, reason string) error {
	if err := d.daemon.EndClaim(ctx, c.UID, c.PodUID); err != nil {
		return err
	}
	d.count.orphans.Inc()
	d.Log.Warn("claim has ended without the kubelet", "claim", c.Full(), "uid", c.UID, "pod", c.PodUID, "reason", reason)
	return nil
}

// endOrphan ends a claim if the API server proves that no pod can use it. The kubelet ends claims in all
// other cases, unless it has lost its state.
func (d *driver) endOrphan(ctx context.Context, uid types.UID) (ended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	unlock, err := d.locks.lock(ctx, uid) // no preparation between check and end
	if err != nil {
		return false, err
	}
	defer unlock()
	c, err := d.find(ctx, uid)
	if err != nil || c == nil || !mayBeOrphan(c) {
		return false, err
	}
	why, err := d.orphaned(ctx, c)
	if err != nil || why == "" {
		return false, err
	}
	if err := d.endFor(ctx, c, why); err != nil {
		return false, fmt.Errorf("end claim %s: %w", c.Full(), err)
	}
	return true, nil
}

// orphaned returns the reason why no pod can use a claim, "" if a pod can. An error is no proof.
func (d *driver) orphaned(ctx context.Context, c *inspect.Claim) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	found, err := d.Client.ResourceV1().ResourceClaims(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	switch {
	case isGone(err):
		return "the claim does not exist", nil
	case err != nil:
		return "", fmt.Errorf("read claim %s: %w", c.Full(), err)
	case string(found.UID) != c.UID:
		return "another claim has its name", nil
	case found.Status.Allocation == nil:
		return "the claim is not allocated", nil
	case !slices.ContainsFunc(found.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return string(r.UID) == c.PodUID }):
		return "the claim is not reserved for its pod", nil
	case !slices.ContainsFunc(found.Status.Allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
		return r.Driver == dra.Driver && r.Pool == d.Node
	}):
		return "the claim is allocated on another node", nil
	}
	return "", nil
}

// isGone reports whether the API server answers that an object does not exist. A proxy that answers 404
// is no proof.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// removeMetadata removes the old directories of unknown claims. Their names are NAMESPACE_NAME. Package
// kubeletplugin makes them, and removes them only if the kubelet ends the claim.
func removeMetadata(dir string, known map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove metadata of claims: %w", err)
	}
	var errs []error
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.IsDir() || known[e.Name()] || !strings.Contains(e.Name(), "_") || time.Since(info.ModTime()) < fileAge {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			errs = append(errs, fmt.Errorf("remove metadata of claims: %w", err))
		}
	}
	return errors.Join(errs...)
}

// removeSockets removes the sockets on which no process listens. With --pod-uid, each instance has sockets
// of its own, and an instance that was killed leaves them. The kubelet tries each of them after its start.
func (d *driver) removeSockets(ctx context.Context) error {
	var errs []error
	for _, pattern := range []string{
		filepath.Join(d.KubeletDir, "plugins_registry", dra.Driver+"-*reg.sock"),
		filepath.Join(d.KubeletDir, "plugins", dra.Driver, "dra*.sock"),
	} {
		sockets, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("find sockets: %w", err)
		}
		for _, s := range sockets {
			if !isStale(ctx, s) {
				continue
			}
			if err := os.Remove(s); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove socket of an earlier instance: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// isStale reports whether a socket is old and refuses connections. An instance that is just starting has
// made a socket, and may not listen yet.
func isStale(ctx context.Context, socket string) bool {
	info, err := os.Lstat(socket)
	if err != nil || info.Mode().Type() != fs.ModeSocket || time.Since(info.ModTime()) < fileAge {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
