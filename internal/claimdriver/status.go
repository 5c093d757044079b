package claimdriver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applyv1 "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/inspect"
)

const (
	statusRetry = 30 * time.Second // after an error
	maxMessage  = 1024             // bytes of a condition's message
)

// writeStatuses keeps status.devices of the node's claims until ctx ends. It is apart from the
// preparation, so that pods start while the API server is away.
func (d *driver) writeStatuses(ctx context.Context) {
	written := make(map[string]string) // the last status by UID
	for ctx.Err() == nil {
		now, changed := d.watch.now()
		retry := make(<-chan time.Time)
		if now.claims != nil {
			if err := d.writeAll(ctx, now.claims, written); err != nil && ctx.Err() == nil {
				d.count.failed("status")
				d.Log.Warn("write status of claims; the next try is in 30 seconds", "error", err)
				retry = time.After(statusRetry)
				changed = nil // an API server that is away gets no request at each event
			}
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-retry:
		}
	}
}

// writeAll writes the statuses that differ from the written ones. A refusal concerns one claim, and the others
// follow. Another error ends writeAll, because the API server may be away.
func (d *driver) writeAll(ctx context.Context, now *inspect.Claims, written map[string]string) error {
	known := make(map[string]bool, len(now.Claims))
	refused, first := 0, error(nil)
	for i := range now.Claims {
		c := &now.Claims[i]
		known[c.UID] = true
		devices := d.deviceStatuses(now, c)
		text, err := json.Marshal(devices)
		if err != nil {
			return fmt.Errorf("encode status of claim %s: %w", c.Full(), err)
		}
		if written[c.UID] == string(text) {
			continue
		}
		switch err := d.write(ctx, c, devices); {
		case isRefused(err):
			refused++
			first = cmp.Or(first, err)
		case err != nil:
			return errors.Join(first, err)
		default:
			written[c.UID] = string(text)
		}
	}
	maps.DeleteFunc(written, func(uid, _ string) bool { return !known[uid] })
	if refused > 1 {
		return fmt.Errorf("%w; and %d more claims", first, refused-1)
	}
	return first
}

// isRefused reports whether the API server has decided against a request because of its object.
func isRefused(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsConflict(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// deviceData is the data of an allocated device.
type deviceData struct {
	CPUs string `json:"cpus"`
	Node *int   `json:"node,omitempty"` // NUMA node. Absent if the device has left the list.
}

// deviceStatuses returns the entries of the driver in status.devices, without times.
func (d *driver) deviceStatuses(now *inspect.Claims, c *inspect.Claim) []*applyv1.AllocatedDeviceStatusApplyConfiguration {
	nodes := make(map[string]*int, len(now.Devices))
	for i := range now.Devices {
		nodes[now.Devices[i].Name] = &now.Devices[i].Node
	}
	all := make([]*applyv1.AllocatedDeviceStatusApplyConfiguration, 0, len(c.Parts))
	for _, p := range c.Parts {
		data, _ := json.Marshal(deviceData{p.CPUs.String(), nodes[p.Device]}) // strings and numbers have no error
		s := applyv1.AllocatedDeviceStatus().WithDriver(dra.Driver).WithPool(d.Node).WithDevice(p.Device).
			WithData(runtime.RawExtension{Raw: data}).WithConditions(readiness(c, p))
		if p.ShareID != "" {
			s.WithShareID(p.ShareID)
		}
		all = append(all, s)
	}
	return all
}

// readiness returns the condition of a part of a claim, without its time.
func readiness(c *inspect.Claim, p inspect.ClaimPart) *applymetav1.ConditionApplyConfiguration {
	is := func(status metav1.ConditionStatus, code, text string) *applymetav1.ConditionApplyConfiguration {
		return applymetav1.Condition().WithType("Ready").WithStatus(status).WithReason(code).WithMessage(text)
	}
	if away := p.CPUs.Intersection(c.Away); !away.IsEmpty() {
		return is(metav1.ConditionFalse, "CPUsAway", fmt.Sprintf("CPUs %s are offline or in another pool", away))
	}
	if len(c.Problems) > 0 {
		text := c.Problems[0]
		return is(metav1.ConditionFalse, "ClaimProblem", strings.ToValidUTF8(text[:min(len(text), maxMessage)], ""))
	}
	return is(metav1.ConditionTrue, "Prepared", "the CPUs are exclusive to the claim")
}

// write applies the entries of the driver to a claim. Entries of other drivers have other owners, so the
// API server keeps them.
func (d *driver) write(ctx context.Context, c *inspect.Claim, devices []*applyv1.AllocatedDeviceStatusApplyConfiguration) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	claims := d.Client.ResourceV1().ResourceClaims(c.Namespace)
	found, err := claims.Get(ctx, c.Name, metav1.GetOptions{})
	switch {
	case isGone(err), err == nil && (string(found.UID) != c.UID || found.Status.Allocation == nil):
		return nil // the claim ends
	case err != nil:
		return fmt.Errorf("read claim %s: %w", c.Full(), err)
	}
	differs := false
	for _, s := range devices {
		old := entryOf(found, s)
		differs = differs || !isSame(old, s)
		s.Conditions[0].WithLastTransitionTime(transition(old, s))
	}
	if !differs {
		return nil
	}
	status := applyv1.ResourceClaimStatus().WithDevices(devices...)
	apply := applyv1.ResourceClaim(c.Name, c.Namespace).WithUID(found.UID).WithStatus(status) // the UID refuses another claim
	if _, err := claims.ApplyStatus(ctx, apply, metav1.ApplyOptions{FieldManager: dra.Driver, Force: true}); err != nil {
		return fmt.Errorf("write status of claim %s: %w", c.Full(), err)
	}
	return nil
}

// entryOf returns the entry of a claim that has the same device and share, nil without one.
func entryOf(claim *resourcev1.ResourceClaim, like *applyv1.AllocatedDeviceStatusApplyConfiguration) *resourcev1.AllocatedDeviceStatus {
	for i := range claim.Status.Devices {
		s := &claim.Status.Devices[i]
		if s.Driver == *like.Driver && s.Pool == *like.Pool && s.Device == *like.Device && ptr.Deref(s.ShareID, "") == ptr.Deref(like.ShareID, "") {
			return s
		}
	}
	return nil
}

// isSame reports whether an entry has the wanted data and condition.
func isSame(old *resourcev1.AllocatedDeviceStatus, want *applyv1.AllocatedDeviceStatusApplyConfiguration) bool {
	if old == nil || old.Data == nil {
		return false
	}
	var a, b deviceData
	if json.Unmarshal(old.Data.Raw, &a) != nil || json.Unmarshal(want.Data.Raw, &b) != nil {
		return false
	}
	ready, wanted := meta.FindStatusCondition(old.Conditions, "Ready"), want.Conditions[0]
	return a.CPUs == b.CPUs && ptr.Equal(a.Node, b.Node) &&
		ready != nil && ready.Status == *wanted.Status && ready.Reason == *wanted.Reason && ready.Message == *wanted.Message
}

// transition returns the time at which the condition got its status.
func transition(old *resourcev1.AllocatedDeviceStatus, want *applyv1.AllocatedDeviceStatusApplyConfiguration) metav1.Time {
	if old != nil {
		if ready := meta.FindStatusCondition(old.Conditions, "Ready"); ready != nil && ready.Status == *want.Conditions[0].Status {
			return ready.LastTransitionTime
		}
	}
	return metav1.Now()
}
