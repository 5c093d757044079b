// Package history is what the daemon has decided, written and found, in the order
// in which it happened: a bounded list that its owner appends to and that others
// read snapshots of.
//
// It is kept in memory and begins with the daemon.
package history

import (
	"strings"
	"time"
)

// Kind is what sort of thing an event is.
type Kind string

// Kinds of events. They are stable names: users filter by them.
const (
	// Started: the daemon has begun.
	Started Kind = "started"
	// Ready: everything that could be placed has been placed.
	Ready Kind = "ready"
	// Placed: it was decided where a container or unit is to run, or anew; Value are
	// its CPUs.
	Placed Kind = "placed"
	// Ended: a container that was placed is gone, or a unit is not configured any more.
	Ended Kind = "ended"
	// Wrote: a value was written; Failed: it was refused, and Error says why.
	Wrote  Kind = "wrote"
	Failed Kind = "failed"
	// Missed: what was to be written to was gone by then, as happens when containers end.
	Missed Kind = "missed"
	// Drift: somebody else has changed a value; Value is what it is now. Repaired: it is
	// as planned again; Cause says who it was.
	Drift    Kind = "drift"
	Repaired Kind = "repaired"
	// Problem: something could not be honoured; Over: that has passed. Code names it.
	Problem Kind = "problem"
	Over    Kind = "over"
	// Fault: a cgroup is not as planned; Mended: it is again.
	Fault  Kind = "fault"
	Mended Kind = "mended"
	// Move: an operator has asked for other CPUs for an owner; Value are those.
	Move Kind = "move"
	// Config: a configuration was taken over, or refused, which Error says.
	Config Kind = "config"
	// CPUs: CPUs have come or gone; Value are those that are online.
	CPUs Kind = "cpus"
	// Source: a source of events fares differently; Property is its name, Value its
	// state.
	Source Kind = "source"
)

// Event is one thing that happened. What does not apply to its kind is empty.
type Event struct {
	// Seq counts the events of one daemon from 1.
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	Kind Kind      `json:"kind"`
	// Pod is namespace/name, PodUID its UID; Container is the container's name, Unit that
	// of a systemd unit. All are empty where the event is about the node.
	Pod       string `json:"pod,omitempty"`
	PodUID    string `json:"podUID,omitempty"`
	Container string `json:"container,omitempty"`
	Unit      string `json:"unit,omitempty"`
	// Cgroup is a path below the cgroup root.
	Cgroup string `json:"cgroup,omitempty"`
	// Via is the way of a write: file, cri, dbus or nri. Property is what was written, and
	// Value what to, or what it was decided to be.
	Via      string `json:"via,omitempty"`
	Property string `json:"property,omitempty"`
	Value    string `json:"value,omitempty"`
	// Before is the value before, where that is known.
	Before string `json:"before,omitempty"`
	// Pool is the pool of a placement, and for management its workload type behind a /.
	Pool string `json:"pool,omitempty"`
	// Code is the stable name of the cause, Cause the sentence.
	Code  string `json:"code,omitempty"`
	Cause string `json:"cause,omitempty"`
	// Error is why it was not done.
	Error string `json:"error,omitempty"`
}

// texts are the event's strings, of which those that come from outside are cut.
func (e *Event) texts() []*string {
	return []*string{&e.Pod, &e.PodUID, &e.Container, &e.Unit, &e.Cgroup, &e.Via, &e.Property, &e.Value, &e.Before, &e.Pool, &e.Code, &e.Cause, &e.Error}
}

// About says that the event is about what a name names: a pod (name, namespace/name or
// UID), a container of it (pod/container), or a unit.
func (e *Event) About(name string) bool {
	if name == "" {
		return false
	}
	if e.Unit == name || e.ofPod(name) {
		return true
	}
	i := strings.LastIndexByte(name, '/')
	return i > 0 && e.Container != "" && e.Container == name[i+1:] && e.ofPod(name[:i])
}

// ofPod says that a name names the event's pod.
func (e *Event) ofPod(name string) bool {
	if e.Pod == "" {
		return e.PodUID != "" && e.PodUID == name
	}
	_, short, _ := strings.Cut(e.Pod, "/")
	return name == e.Pod || name == e.PodUID || name == short
}
