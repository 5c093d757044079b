package claimdriver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
				d.log.Warn("write status of claims; the next try is in 30 seconds", "error", err)
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
	for uid := range written {
		if !known[uid] {
			delete(written, uid)
		}
	}
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
func (d *driver) deviceStatuses(now *inspect.Claims, c *inspect.Claim) []resourcev1.AllocatedDeviceStatus {
	nodes := make(map[string]*int, len(now.Devices))
	for i := range now.Devices {
		nodes[now.Devices[i].Name] = &now.Devices[i].Node
	}
	all := make([]resourcev1.AllocatedDeviceStatus, 0, len(c.Parts))
	for _, p := range c.Parts {
		data, _ := json.Marshal(deviceData{p.CPUs.String(), nodes[p.Device]}) // strings and numbers have no error
		s := resourcev1.AllocatedDeviceStatus{
			Driver: dra.Driver, Pool: d.node, Device: p.Device, Data: &runtime.RawExtension{Raw: data},
			Conditions: []metav1.Condition{readiness(c, p)},
		}
		if p.ShareID != "" {
			s.ShareID = &p.ShareID
		}
		all = append(all, s)
	}
	return all
}

// readiness returns the condition of a part of a claim, without its time.
func readiness(c *inspect.Claim, p inspect.ClaimPart) metav1.Condition {
	if away := p.CPUs.Intersection(c.Away); !away.IsEmpty() {
		return metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "CPUsAway", Message: fmt.Sprintf("CPUs %s are offline or in another pool", away)}
	}
	if len(c.Problems) > 0 {
		text := c.Problems[0]
		return metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "ClaimProblem", Message: strings.ToValidUTF8(text[:min(len(text), maxMessage)], "")}
	}
	return metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Prepared", Message: "the CPUs are exclusive to the claim"}
}

// write applies the entries of the driver to a claim. Entries of other drivers have other owners, so the
// API server keeps them.
func (d *driver) write(ctx context.Context, c *inspect.Claim, devices []resourcev1.AllocatedDeviceStatus) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	claims := d.client.ResourceV1().ResourceClaims(c.Namespace)
	found, err := claims.Get(ctx, c.Name, metav1.GetOptions{})
	switch {
	case isGone(err), err == nil && (string(found.UID) != c.UID || found.Status.Allocation == nil):
		return nil // the claim ends
	case err != nil:
		return fmt.Errorf("read claim %s: %w", c.Full(), err)
	}
	status := applyv1.ResourceClaimStatus()
	differs := false
	for i := range devices {
		s := &devices[i]
		old := entryOf(found, s)
		differs = differs || !isSame(old, s)
		status.WithDevices(applyEntry(s, transition(old, s)))
	}
	if !differs {
		return nil
	}
	apply := applyv1.ResourceClaim(c.Name, c.Namespace).WithUID(found.UID).WithStatus(status) // the UID refuses another claim
	if _, err := claims.ApplyStatus(ctx, apply, metav1.ApplyOptions{FieldManager: dra.Driver, Force: true}); err != nil {
		return fmt.Errorf("write status of claim %s: %w", c.Full(), err)
	}
	return nil
}

// entryOf returns the entry of a claim that has the same device and share, nil without one.
func entryOf(claim *resourcev1.ResourceClaim, like *resourcev1.AllocatedDeviceStatus) *resourcev1.AllocatedDeviceStatus {
	for i := range claim.Status.Devices {
		s := &claim.Status.Devices[i]
		if s.Driver == like.Driver && s.Pool == like.Pool && s.Device == like.Device && ptr.Deref(s.ShareID, "") == ptr.Deref(like.ShareID, "") {
			return s
		}
	}
	return nil
}

// isSame reports whether an entry has the wanted data and condition.
func isSame(old, want *resourcev1.AllocatedDeviceStatus) bool {
	if old == nil || old.Data == nil {
		return false
	}
	var a, b deviceData
	if json.Unmarshal(old.Data.Raw, &a) != nil || json.Unmarshal(want.Data.Raw, &b) != nil {
		return false
	}
	ready, wanted := meta.FindStatusCondition(old.Conditions, "Ready"), want.Conditions[0]
	return a.CPUs == b.CPUs && ptr.Equal(a.Node, b.Node) &&
		ready != nil && ready.Status == wanted.Status && ready.Reason == wanted.Reason && ready.Message == wanted.Message
}

// transition returns the time at which the condition got its status.
func transition(old, want *resourcev1.AllocatedDeviceStatus) metav1.Time {
	if old != nil {
		if ready := meta.FindStatusCondition(old.Conditions, "Ready"); ready != nil && ready.Status == want.Conditions[0].Status {
			return ready.LastTransitionTime
		}
	}
	return metav1.Now()
}

// applyEntry returns the configuration of an entry for server-side apply.
func applyEntry(s *resourcev1.AllocatedDeviceStatus, since metav1.Time) *applyv1.AllocatedDeviceStatusApplyConfiguration {
	ready := &s.Conditions[0]
	a := applyv1.AllocatedDeviceStatus().WithDriver(s.Driver).WithPool(s.Pool).WithDevice(s.Device).WithData(*s.Data).
		WithConditions(applymetav1.Condition().WithType(ready.Type).WithStatus(ready.Status).WithReason(ready.Reason).
			WithMessage(ready.Message).WithLastTransitionTime(since))
	if s.ShareID != nil {
		a.WithShareID(*s.ShareID)
	}
	return a
}
