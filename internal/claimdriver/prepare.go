package claimdriver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/cpupoold/cpupoold/internal/claimdriver/cdifiles"
	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// callTimeout is the maximum time of a call for one claim. The daemon decides within 20 seconds.
const callTimeout = 25 * time.Second

// PrepareResourceClaims gives claims their CPUs. The kubelet repeats the call for claims with an error.
func (d *driver) PrepareResourceClaims(ctx context.Context, claims []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, c := range claims {
		began := time.Now()
		devices, err := d.prepare(ctx, c)
		d.count.call("prepare", began, err)
		if err != nil {
			err = named(c.Namespace+"/"+c.Name, err)
			d.Log.Warn("prepare claim", "claim", c.Namespace+"/"+c.Name, "uid", c.UID, "error", err)
		} else {
			d.Log.Info("claim is prepared", "claim", c.Namespace+"/"+c.Name, "uid", c.UID, "devices", len(devices))
		}
		results[c.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

// named adds the name of a claim to an error, unless it begins with the name, as refusals of the daemon do.
func named(claim string, err error) error {
	if strings.HasPrefix(err.Error(), "claim "+claim) {
		return err
	}
	return fmt.Errorf("claim %s: %w", claim, err)
}

// prepare returns the devices of a claim, none for a claim without CPUs of this driver.
func (d *driver) prepare(ctx context.Context, claim *resourcev1.ResourceClaim) ([]kubeletplugin.Device, error) {
	parts, err := dra.Parts(claim, d.Node)
	if err != nil || len(parts) == 0 {
		return nil, err
	}
	if err := checkConfig(claim); err != nil {
		return nil, err
	}
	pod, err := podOf(claim)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	unlock, err := d.locks.lock(ctx, claim.UID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	asked := pools.Claim{UID: string(claim.UID), Namespace: claim.Namespace, Name: claim.Name, PodUID: string(pod), Parts: parts}
	cpus, err := d.daemon.PrepareClaim(ctx, asked)
	if _, refused := errors.AsType[control.Conflict](err); refused && d.endEarlier(ctx, claim.UID, pod) {
		cpus, err = d.daemon.PrepareClaim(ctx, asked)
	}
	if err != nil {
		return nil, err
	}
	all, err := checkAnswer(parts, cpus)
	if err != nil {
		return nil, err
	}
	if err := d.files.Write(string(claim.UID), all); err != nil {
		return nil, err
	}
	cleanAnnotation(claim)
	return d.devices(ctx, string(claim.UID), cpus)
}

// checkConfig returns an error if the claim or its class has parameters for the driver.
func checkConfig(claim *resourcev1.ResourceClaim) error {
	for i := range claim.Status.Allocation.Devices.Config {
		c := &claim.Status.Allocation.Devices.Config[i]
		if c.Opaque != nil && c.Opaque.Driver == dra.Driver {
			return fmt.Errorf("config of source %s has parameters for %s, which knows no parameters; remove the config", c.Source, dra.Driver)
		}
	}
	return nil
}

// podOf returns the UID of the pod for which a claim is reserved.
func podOf(claim *resourcev1.ResourceClaim) (types.UID, error) {
	if n := len(claim.Status.ReservedFor); n != 1 {
		return "", fmt.Errorf("it is reserved for %d pods; CPUs of a claim are for one pod: create a claim for each pod, for example from a ResourceClaimTemplate", n)
	}
	of := &claim.Status.ReservedFor[0]
	if of.APIGroup != corev1.GroupName || of.Resource != "pods" {
		return "", fmt.Errorf("it is reserved for an object of resource %q; want a pod", of.Resource)
	}
	return of.UID, nil
}

// checkAnswer returns the CPUs of all parts. It returns an error if the daemon has given other numbers of
// CPUs, or one CPU twice.
func checkAnswer(parts []pools.ClaimPart, answer []inspect.ClaimPart) (all cpuset.Set, err error) {
	if len(answer) != len(parts) {
		return all, fmt.Errorf("the daemon answers for %d of %d allocation results", len(answer), len(parts))
	}
	wanted := make(map[[3]string]int, len(parts))
	for _, p := range parts {
		wanted[[3]string{p.Request, p.Device, p.ShareID}] = p.CPUs
	}
	for _, a := range answer {
		if n := wanted[[3]string{a.Request, a.Device, a.ShareID}]; a.CPUs.Len() != n {
			return all, fmt.Errorf("the daemon answers CPUs %s for request %s of device %s; want %d", a.CPUs, a.Request, a.Device, n)
		}
		if all.Overlaps(a.CPUs) {
			return all, errors.New("the daemon answers the same CPU for two requests")
		}
		all = all.Union(a.CPUs)
	}
	return all, nil
}

// cleanAnnotation removes the annotation with the name of the claim in the pod, unless it is such a name.
// Kubeletplugin makes a path in the container of it, and users can write it.
func cleanAnnotation(claim *resourcev1.ResourceClaim) {
	if name := claim.Annotations[resourcev1.PodResourceClaimAnnotation]; len(validation.IsDNS1123Label(name)) > 0 {
		delete(claim.Annotations, resourcev1.PodResourceClaimAnnotation)
	}
}

// devices returns the answer to the kubelet, with the metadata for the containers.
func (d *driver) devices(ctx context.Context, uid string, parts []inspect.ClaimPart) ([]kubeletplugin.Device, error) {
	described, err := d.describe(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]kubeletplugin.Device, 0, len(parts))
	for _, p := range parts {
		attributes := make(map[string]resourcev1.DeviceAttribute)
		for name, a := range described[p.Device] {
			attributes[string(name)] = a
		}
		attributes[cpusetAttribute] = resourcev1.DeviceAttribute{StringValue: new(p.CPUs.String())}
		attributes[allocatedAttribute] = resourcev1.DeviceAttribute{IntValue: new(int64(p.CPUs.Len()))}
		device := kubeletplugin.Device{
			Requests: []string{p.Request}, PoolName: d.Node, DeviceName: p.Device, CDIDeviceIDs: []string{cdifiles.Device(uid)},
			Metadata: &kubeletplugin.DeviceMetadata{Attributes: attributes},
		}
		if p.ShareID != "" {
			device.ShareID = new(types.UID(p.ShareID))
		}
		all = append(all, device)
	}
	return all, nil
}

// Attributes in the metadata of a request. The attributes of its device are in the metadata, too.
const (
	cpusetAttribute    = dra.Driver + "/cpuset"        // list of the CPUs of the request
	allocatedAttribute = dra.Driver + "/allocatedCPUs" // their number
)

// describe returns the attributes of the devices of the node by the name of the device. A device that
// has left the list is absent.
func (d *driver) describe(ctx context.Context) (map[string]map[resourcev1.QualifiedName]resourcev1.DeviceAttribute, error) {
	now, _ := d.watch.now()
	if now.claims == nil { // the driver has just started
		var err error
		if now.claims, err = d.daemon.Claims(ctx, 0, control.Wait{}); err != nil {
			return nil, err
		}
	}
	all := make(map[string]map[resourcev1.QualifiedName]resourcev1.DeviceAttribute)
	for _, device := range dra.Devices(now.claims.Devices, d.NUMAAttributes...) {
		all[device.Name] = device.Attributes
	}
	return all, nil
}

// UnprepareResourceClaims takes the CPUs of claims back. The kubelet calls it after the last container
// has stopped, and repeats it for claims with an error.
func (d *driver) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := make(map[types.UID]error, len(claims))
	for _, c := range claims {
		began := time.Now()
		err := d.end(ctx, c.UID)
		d.count.call("unprepare", began, err)
		if err != nil {
			err = named(c.NamespacedName.String(), err)
			d.Log.Warn("end claim", "claim", c.NamespacedName.String(), "uid", c.UID, "error", err)
		} else {
			d.Log.Info("claim has ended", "claim", c.NamespacedName.String(), "uid", c.UID)
		}
		results[c.UID] = err
	}
	return results, nil
}

// end takes the CPUs of a claim back, and removes its files.
func (d *driver) end(ctx context.Context, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	unlock, err := d.locks.lock(ctx, uid)
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.daemon.EndClaim(ctx, string(uid), ""); err != nil {
		return err
	}
	return d.files.Remove(string(uid))
}
