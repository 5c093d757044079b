package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	cdi "tags.cncf.io/container-device-interface/specs-go"
)

// cdiDir is the directory from which the runtime reads CDI files.
const cdiDir = "/var/run/cdi"

// A driver prepares claims: the containers of a claim get the variable NIC with the names of its interfaces.
type driver struct{}

// PrepareResourceClaims implements [kubeletplugin.DRAPlugin].
func (driver) PrepareResourceClaims(_ context.Context, claims []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	all := make(map[types.UID]kubeletplugin.PrepareResult)
	for _, c := range claims {
		all[c.UID] = prepare(c)
	}
	return all, nil
}

func prepare(c *resourcev1.ResourceClaim) kubeletplugin.PrepareResult {
	var devices []kubeletplugin.Device
	var names []string
	for _, r := range c.Status.Allocation.Devices.Results {
		if r.Driver != driverName {
			continue
		}
		names = append(names, r.Device)
		devices = append(devices, kubeletplugin.Device{
			Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device, CDIDeviceIDs: []string{driverName + "/claim=" + string(c.UID)},
		})
	}
	if err := write(c.UID, names); err != nil {
		return kubeletplugin.PrepareResult{Err: err}
	}
	return kubeletplugin.PrepareResult{Devices: devices}
}

// write writes the CDI file of a claim.
func write(uid types.UID, names []string) error {
	text, err := json.Marshal(cdi.Spec{Version: "0.6.0", Kind: driverName + "/claim", Devices: []cdi.Device{
		{Name: string(uid), ContainerEdits: cdi.ContainerEdits{Env: []string{"NIC=" + strings.Join(names, ",")}}},
	}})
	if err != nil {
		return fmt.Errorf("encode CDI file: %w", err)
	}
	if err := os.MkdirAll(cdiDir, 0o755); err != nil {
		return fmt.Errorf("make directory of CDI files: %w", err)
	}
	// The runtime reads files that end in .json, so it never reads a part of the text.
	part := file(uid) + ".part"
	if err := errors.Join(os.WriteFile(part, text, 0o600), os.Rename(part, file(uid))); err != nil {
		return fmt.Errorf("write CDI file: %w", err)
	}
	return nil
}

func file(uid types.UID) string { return filepath.Join(cdiDir, driverName+"-"+string(uid)+".json") }

// UnprepareResourceClaims implements [kubeletplugin.DRAPlugin].
func (driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	all := make(map[types.UID]error)
	for _, c := range claims {
		all[c.UID] = nil
		if err := os.Remove(file(c.UID)); !errors.Is(err, fs.ErrNotExist) {
			all[c.UID] = err
		}
	}
	return all, nil
}

// HandleError implements [kubeletplugin.DRAPlugin].
func (driver) HandleError(_ context.Context, err error, msg string) {
	fmt.Fprintf(os.Stderr, "nicdriver: %s: %v\n", msg, err)
}

// WatchHealthStatus implements [kubeletplugin.DRAPlugin].
func (driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}
