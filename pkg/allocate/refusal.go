package allocate

import "fmt"

// Codes of refusals. They are stable: they are labels of metrics and go into
// events.
const (
	TooFewFree   = "TooFewFree"   // there are not as many free CPUs, whatever the options
	BadOptions   = "BadOptions"   // options contradict each other (Options.Validate)
	SMTAlignment = "SMTAlignment" // with full-pcpus-only the number is no multiple of the threads of a core
	// TooFewWholeCores: with full-pcpus-only the cores that are wholly free do not
	// add up to the number.
	TooFewWholeCores = "TooFewWholeCores"
	// TooFewUntouchedCores: with one-owner-per-core there is too little room in the
	// cores of which nobody has a part.
	TooFewUntouchedCores = "TooFewUntouchedCores"
	TooFewIsolated       = "TooFewIsolated"   // too few of the CPUs that the kernel isolates since boot are free
	TooFewOfCoreType     = "TooFewOfCoreType" // too few CPUs of the required kind of core are free
	NotOnOneNode         = "NotOnOneNode"     // with single-numa-node no node, or none of the hinted ones, has room for all
	NotOnHintedNodes     = "NotOnHintedNodes" // with restricted the hinted nodes are large enough, but full
	// NotOnFewestNodes: with restricted the request needs more nodes, or packages
	// with align-by-socket, than it would need on the empty machine.
	NotOnFewestNodes = "NotOnFewestNodes"
)

// Refusal says why a request cannot be had.
type Refusal struct {
	// Asked, Free and Usable are numbers of CPUs: what is asked for, what is free,
	// and what of it the options let count.
	Asked  int `json:"asked"`
	Free   int `json:"free"`
	Usable int `json:"usable"`
	// Why says what is in the way and what to do; Code is its stable name.
	Code string `json:"code"`
	Why  string `json:"why"`
}

// Error says all of it.
func (r *Refusal) Error() string {
	return fmt.Sprintf("%d CPUs asked, %d free, %d of them usable: %s", r.Asked, r.Free, r.Usable, r.Why)
}

// defragment is the command that finds moves of other owners.
const defragment = "cpupoold plan --defrag"
