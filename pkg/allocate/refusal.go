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
	// TooFewUntouchedCores: with one-owner-per-core the cores without an owner have too few
	// CPUs.
	TooFewUntouchedCores = "TooFewUntouchedCores"
	TooFewIsolated       = "TooFewIsolated"   // too few of the CPUs that the kernel isolates since boot are free.
	TooFewOfCoreType     = "TooFewOfCoreType" // too few CPUs of the required kind of core are free.
	NotOnOneNode         = "NotOnOneNode"     // with single-numa-node no node, or none of the hinted ones, has room for all
	NotOnHintedNodes     = "NotOnHintedNodes" // with restricted the hinted nodes are large enough, but full
	// NotOnFewestNodes: with restricted the request needs more nodes, or packages
	// with align-by-socket, than it would need on the empty machine.
	NotOnFewestNodes = "NotOnFewestNodes"
)

// Refusal is the reason why a request cannot be met.
type Refusal struct {
	// Asked, Free and Usable are numbers of CPUs: of the request, of free CPUs,
	// and of free CPUs that the options admit.
	Asked  int `json:"asked"`
	Free   int `json:"free"`
	Usable int `json:"usable"`
	// Why is the cause and the remedy; Code is its stable name.
	Code string `json:"code"`
	Why  string `json:"why"`
}

// Error contains all fields but Code.
func (r *Refusal) Error() string {
	return fmt.Sprintf("%d CPUs asked, %d free, %d of them usable: %s", r.Asked, r.Free, r.Usable, r.Why)
}

// defragment is the command that finds moves of other owners.
const defragment = "cpupoold plan --defrag"
