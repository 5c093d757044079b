package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Event is a line of a trace: one of Add, Remove, Resize, Offline and Online.
type Event struct {
	// At is the time since the beginning.
	At time.Duration
	// Add is a pod that comes: namespace/name of one that there is, or Pod itself.
	Add string
	Pod *Pod
	// Remove is a pod that ends, Resize one of which Container gets CPU; without Container
	// the pod itself does (spec.resources).
	Remove, Resize string
	Container      string
	CPU            resource.Quantity
	// Offline and Online are CPUs that go and come.
	Offline, Online cpuset.Set
}

// String is the event in words.
func (e *Event) String() string {
	switch {
	case e.Add != "":
		return "add " + e.Add
	case e.Remove != "":
		return "remove " + e.Remove
	case e.Resize != "":
		return "resize " + strings.TrimSuffix(e.Resize+"/"+e.Container, "/") + " to " + e.CPU.String()
	case !e.Offline.IsEmpty():
		return "offline " + e.Offline.String()
	}
	return "online " + e.Online.String()
}

type eventLine struct {
	At        string          `json:"at"`
	Add       json.RawMessage `json:"add"`
	Remove    string          `json:"remove"`
	Resize    string          `json:"resize"`
	Container string          `json:"container"`
	CPU       string          `json:"cpu"`
	Offline   string          `json:"offline"`
	Online    string          `json:"online"`
}

// mostEvents bounds a trace: each event is a plan or more.
const mostEvents = 100_000

// ParseTrace reads a trace: a JSON object for each line, empty lines aside. Times do not
// go back. An error names the line.
func ParseTrace(data []byte, namespace string) ([]Event, error) {
	var events []Event
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		e, err := parseEvent(line, namespace)
		switch {
		case err == nil && len(events) == mostEvents:
			err = fmt.Errorf("more than %d events", mostEvents)
		case err == nil && len(events) > 0 && e.At < events[len(events)-1].At:
			err = fmt.Errorf("at %s is before the line above, at %s; sort the lines by time", e.At, events[len(events)-1].At)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		events = append(events, e)
	}
	return events, nil
}

func parseEvent(line []byte, namespace string) (Event, error) {
	var l eventLine
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return Event{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Event{}, errors.New("more than one object in the line")
	}
	e := Event{Remove: full(l.Remove, namespace), Resize: full(l.Resize, namespace), Container: l.Container}
	kinds := len(slices.DeleteFunc([]string{string(l.Add), l.Remove, l.Resize, l.Offline, l.Online}, func(text string) bool { return text == "" }))
	var err error
	switch {
	case kinds != 1:
		return e, fmt.Errorf("%d of add, remove, resize, offline and online; want one", kinds)
	case l.Resize == "" && (l.Container != "" || l.CPU != ""):
		return e, errors.New("container and cpu are for resize")
	}
	if e.At, err = time.ParseDuration(l.At); err != nil || e.At < 0 {
		return e, fmt.Errorf("at %q is no time since the beginning; write one such as 90s or 1h30m", l.At)
	}
	switch {
	case len(l.Add) > 0:
		err = e.parseAdd(l.Add, namespace)
	case l.Resize != "":
		err = e.parseResize(l.CPU)
	case l.Offline != "":
		e.Offline, err = parseCPUs(l.Offline)
	case l.Online != "":
		e.Online, err = parseCPUs(l.Online)
	}
	return e, err
}

func parseCPUs(text string) (cpuset.Set, error) {
	cpus, err := cpuset.Parse(text)
	if err == nil && cpus.IsEmpty() {
		err = errors.New("no CPU; write a list such as 2-3,8")
	}
	return cpus, err
}

func (e *Event) parseAdd(add json.RawMessage, namespace string) error {
	if json.Unmarshal(add, &e.Add) == nil {
		if e.Add = full(e.Add, namespace); e.Add == "" {
			return errors.New("add: no name")
		}
		return nil
	}
	var o Objects
	if errs := o.Read("add", add, namespace); len(errs) > 0 {
		return fmt.Errorf("add: %w", errors.Join(errs...))
	}
	if len(o.Pods) != 1 || o.Pods[0].kind != "Pod" {
		return errors.New("add: want the name of a pod as namespace/name, or one object with apiVersion v1 and kind Pod")
	}
	e.Pod = &o.Pods[0]
	e.Pod.Node = "" // wherever it was recorded
	e.Add = e.Pod.Name()
	return nil
}

func (e *Event) parseResize(cpu string) error {
	var q resource.Quantity
	err := errors.New("endless") // ParseQuantity takes hours for an exponent of nine digits
	if !strings.ContainsAny(cpu, "eE") {
		q, err = resource.ParseQuantity(cpu)
	}
	if err != nil || q.Sign() < 0 || q.CmpInt64(cpuset.MaxCPUs) > 0 {
		return fmt.Errorf("resize: cpu %q; want an amount such as 2 or 500m", cpu)
	}
	e.CPU = q
	return nil
}

// full is the name of a pod in full; that of none is empty.
func full(name, namespace string) string {
	if name == "" || strings.Contains(name, "/") {
		return name
	}
	return namespace + "/" + name
}

// settleTime is the time that the daemon waits for a pod's containers. Then it reports that
// a container of an annotation does not exist, and reserves no more CPUs for the pod.
const settleTime = 10 * time.Minute

// Run has all pods of objects come that the events do not name, in their order, and then
// lets the events happen. The error names the event that cannot happen.
func (n *Node) Run(objects *Objects, events []Event) ([]Step, error) {
	byName := make(map[string]*Pod, len(objects.Pods))
	for i := range objects.Pods {
		byName[objects.Pods[i].Name()] = &objects.Pods[i]
	}
	later := make(map[string]bool)
	for _, e := range events {
		if e.Add != "" && e.Pod == nil {
			later[e.Add] = true
		}
	}
	var first []*Pod
	for i := range objects.Pods {
		if p := &objects.Pods[i]; !later[p.Name()] {
			first = append(first, p)
		}
	}
	n.offer(objects)
	if err := n.addAll(first); err != nil {
		return nil, err
	}
	steps := make([]Step, 0, len(events))
	for i := range events {
		e := &events[i]
		n.now = int64(e.At)
		n.settle(int64(e.At - settleTime))
		n.refusals.at = e.At.String()
		before := n.containers()
		if err := n.happen(e, byName); err != nil {
			return nil, fmt.Errorf("event %d, at %s, %s: %w", i+1, e.At, e, err)
		}
		n.refusals.settle(n)
		steps = append(steps, n.step(e, before))
	}
	n.settle(n.now)
	n.refusals.settle(n)
	return steps, nil
}

func (n *Node) happen(e *Event, byName map[string]*Pod) error {
	switch {
	case e.Pod != nil:
		return n.Add(e.Pod)
	case e.Add != "":
		p := byName[e.Add]
		if p == nil {
			return errors.New("no file has such a pod")
		}
		return n.Add(p)
	case e.Remove != "":
		return n.Remove(e.Remove)
	case e.Resize != "":
		return n.Resize(e.Resize, e.Container, e.CPU)
	case !e.Offline.IsEmpty():
		return n.Plug(e.Offline, false)
	}
	return n.Plug(e.Online, true)
}

func (n *Node) step(e *Event, before []inspect.Container) Step {
	s := Step{At: e.At.String(), Event: e.String(), Pods: len(n.pods), Pools: n.pools(), Refused: []string{}}
	s.Containers, s.Ended = elsewhere(before, n.containers())
	for _, r := range refusedNow(n, "") {
		s.Refused = append(s.Refused, r.Name())
	}
	slices.Sort(s.Refused)
	s.Refused = slices.Compact(s.Refused)
	return s
}
