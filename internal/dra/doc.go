// Package dra describes the CPUs of a node to Dynamic Resource Allocation (resource.k8s.io/v1):
// devices, ResourceSlice and DeviceClass. It reads the result of an allocation for the planner.
// All functions are pure. The package needs the types of the API, and no client.
package dra
