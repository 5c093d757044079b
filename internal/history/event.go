// Package history holds the daemon's decisions, writes and findings in the order of their events.
//
// A [Log] is a bounded list that one goroutine appends to. Others read its snapshots. It is in
// memory only, and starts with the daemon.
package history

import (
	"strings"
	"time"
)

// Kind is a kind of event.
type Kind string

// Kinds of events. Users filter by these names, so they are stable.
const (
	// Started: the daemon has started.
	Started Kind = "started"
	// Ready: the writes of the first placements are complete. Refused writes do not delay it.
	Ready Kind = "ready"
	// Placed: a container or unit has a new placement; Value holds its CPUs.
	Placed Kind = "placed"
	// Ended: a container with a placement is gone, or a unit left the configuration.
	Ended Kind = "ended"
	// Wrote: a value was written. Failed: a write was refused; Error is the reason.
	Wrote  Kind = "wrote"
	Failed Kind = "failed"
	// Missed: the target of a write was gone, as happens when containers end.
	Missed Kind = "missed"
	// Drift: another process changed a value; Value is the new one. Repaired: it is in the
	// desired state again; Cause is the presumed author.
	Drift    Kind = "drift"
	Repaired Kind = "repaired"
	// Problem: a problem starts. Over: it ends. Code names it.
	Problem Kind = "problem"
	Over    Kind = "over"
	// Fault: a cgroup is not in the desired state. Cleared: it is in it again.
	Fault   Kind = "fault"
	Cleared Kind = "mended"
	// Move: an operator requested other CPUs for an owner; Value holds them.
	Move Kind = "move"
	// Config: a new configuration is in use, or was rejected; then Error is the reason.
	Config Kind = "config"
	// CPUs: CPUs went online or offline; Value holds the online CPUs.
	CPUs Kind = "cpus"
	// Source: a source of events changed its state. Property is its name, Value the state.
	Source Kind = "source"
)

// Event is one event. Fields that do not apply to its kind are empty.
type Event struct {
	// Seq counts the events of one daemon, from 1.
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	Kind Kind      `json:"kind"`
	// Pod is namespace/name, PodUID its UID. Container is the name of the container, Unit the
	// name of the unit. All are empty for events about the node.
	Pod       string `json:"pod,omitempty"`
	PodUID    string `json:"podUID,omitempty"`
	Container string `json:"container,omitempty"`
	Unit      string `json:"unit,omitempty"`
	// Cgroup is a path below the cgroup root.
	Cgroup string `json:"cgroup,omitempty"`
	// Via is the way of a write: file, cri, dbus or nri. Property is the property that was
	// written or decided, and Value the new value.
	Via      string `json:"via,omitempty"`
	Property string `json:"property,omitempty"`
	Value    string `json:"value,omitempty"`
	// Before is the previous value, if known.
	Before string `json:"before,omitempty"`
	// Pool is the pool of a placement. For a management pool, /TYPE follows.
	Pool string `json:"pool,omitempty"`
	// Code is the stable name of the cause, Cause its text.
	Code  string `json:"code,omitempty"`
	Cause string `json:"cause,omitempty"`
	// Error is the reason of a failure.
	Error string `json:"error,omitempty"`
}

// texts returns the strings of the event, which Add cuts.
func (e *Event) texts() []*string {
	return []*string{&e.Pod, &e.PodUID, &e.Container, &e.Unit, &e.Cgroup, &e.Via, &e.Property, &e.Value, &e.Before, &e.Pool, &e.Code, &e.Cause, &e.Error}
}

// About reports whether name matches the event: a pod (name, namespace/name or UID), a container
// of it (pod/container), or a unit.
func (e *Event) About(name string) bool {
	if name == "" {
		return false
	}
	if e.Unit == name || e.isPodName(name) {
		return true
	}
	i := strings.LastIndexByte(name, '/')
	return i > 0 && e.Container != "" && e.Container == name[i+1:] && e.isPodName(name[:i])
}

// isPodName reports whether name is a name of the event's pod.
func (e *Event) isPodName(name string) bool {
	if e.Pod == "" {
		return e.PodUID != "" && e.PodUID == name
	}
	_, short, _ := strings.Cut(e.Pod, "/")
	return name == e.Pod || name == e.PodUID || name == short
}
