package allocate

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Request is the request of one owner.
type Request struct {
	CPUs int // number of additional CPUs. If it is not positive, no CPUs are taken
	// Have are the CPUs that the owner has already, which are not allocated again. Near are
	// the CPUs of its companions (containers of the same pod): CPUs near them are preferred.
	Have, Near cpuset.Set
	// Nodes are the IDs of the NUMA nodes of its devices and memory; empty means
	// that there is no hint. Nodes without online CPUs do not count.
	Nodes   cpuset.Set
	Options Options
	// Pool are the CPUs that the owner could get if no other owner had any. If it is not
	// empty, a refusal states whether the request can be met then.
	Pool cpuset.Set
}

// Take takes CPUs out of s, and with OneOwnerPerCore all else of their cores, or
// returns a *Refusal and leaves s as it is. Equal supplies give equal CPUs for
// equal requests.
func (s *Supply) Take(r Request) (cpuset.Set, error) {
	if r.CPUs <= 0 {
		return cpuset.Set{}, nil
	}
	s.request, s.have, s.never, s.considered, s.steps = r, nil, "", 0, 0
	if !r.Have.IsEmpty() {
		clear(s.had)
		s.m.mark(s.had, r.Have)
		s.have = s.had
	}
	refusal := s.precheck()
	if refusal == nil {
		for w := range s.tries {
			if refusal = s.run(w); refusal == nil {
				return s.commit(&r.Options), nil
			}
		}
	}
	if never := s.neverPossible(); never != "" {
		refusal.Why = never
	}
	return cpuset.Set{}, refusal
}

// neverPossible returns the reason of a refusal that other owners do not cause, because the
// empty pool has no room either. It returns "" if they may cause it.
func (s *Supply) neverPossible() string {
	if s.never == "" || s.request.Pool.IsEmpty() {
		return ""
	}
	empty, again := s.m.Supply(s.request.Pool.Difference(s.request.Have)), s.request
	again.Pool = cpuset.Set{}
	if _, err := empty.Take(again); err == nil {
		return ""
	}
	return empty.never
}

// commit takes the picked CPUs.
func (s *Supply) commit(o *Options) cpuset.Set {
	v := &s.view
	for _, cpu := range v.picked {
		clearBit(s.free, cpu)
		if o.OneOwnerPerCore {
			for _, thread := range s.m.cores[s.m.core[cpu]].threads {
				clearBit(s.free, int(thread))
			}
			v.drop(s.m.core[cpu])
		}
	}
	cpus := cpuset.Of(v.picked...)
	v.picked = v.picked[:0]
	return cpus
}

// required are the preferences that one try requires.
type required struct{ isolated, coreType bool }

// tries yields the preferences in their order: a try with a preference comes before the try
// without it, and isolation before the kind of core.
func (s *Supply) tries(yield func(required) bool) {
	o := &s.request.Options
	kinds := o.CoreTypePreference
	if !s.m.hybrid {
		kinds = ""
	}
	for _, isolated := range [...]bool{true, false} {
		if !insists(o.Isolated, isolated) {
			continue
		}
		for _, coreType := range [...]bool{true, false} {
			if insists(kinds, coreType) && !yield(required{isolated, coreType}) {
				return
			}
		}
	}
}

// insists reports whether a preference is tried as a requirement (on true), or ignored.
func insists(w Preference, on bool) bool {
	switch w {
	case Require:
		return on
	case Prefer, Avoid:
		return true
	}
	return !on
}

// precheck refuses requests that no set of free CPUs could meet.
func (s *Supply) precheck() *Refusal {
	r, m := &s.request, s.m
	if errs := r.Options.Validate(); len(errs) > 0 {
		return s.refuse(BadOptions, 0, "%s", errs[0])
	}
	if total := r.CPUs + count(s.have); r.Options.FullPCPUsOnly && total%m.Group() != 0 {
		return s.refuse(SMTAlignment, count(s.free), "full-pcpus-only gives whole cores of %d threads, and %d is no multiple of it; request %d, or disable the option",
			m.group, total, total+m.group-total%m.group)
	}
	if free := count(s.free); free < r.CPUs {
		most := free + count(s.have)
		s.never = fmt.Sprintf("the pool has only %d CPUs; request at most %d, or make the pool larger", most, most)
		return s.refuse(TooFewFree, free, "%d more are needed; request fewer, make the pool larger, or wait until others end", r.CPUs-free)
	}
	return nil
}

func (s *Supply) refuse(code string, usable int, format string, args ...any) *Refusal {
	return &Refusal{Asked: s.request.CPUs, Free: count(s.free), Usable: usable, Code: code, Why: fmt.Sprintf(format, args...)}
}

// filterFor returns the filter for the options and w.
func (s *Supply) filterFor(w required) filter {
	o, m := &s.request.Options, s.m
	f := filter{wholeCores: o.FullPCPUsOnly, untouched: o.OneOwnerPerCore, spread: o.DistributeCPUsAcrossCores}
	switch {
	case !w.isolated:
	case o.Isolated == Avoid:
		f.without = m.isolated
	default:
		f.isolated = m.isolated
	}
	switch {
	case !w.coreType:
	case o.CoreType == Performance:
		f.coreType = m.performance
	default:
		f.coreType = m.efficiency
	}
	return f
}

// run picks CPUs into the view of the supply.
func (s *Supply) run(w required) *Refusal {
	s.filter, s.hinted, s.search = s.filterFor(w), nil, search{}
	s.start()
	refusal := s.tooFew()
	if refusal == nil {
		refusal = s.place()
	}
	s.considered += s.search.considered
	s.steps += s.search.steps
	return refusal
}

// start counts the CPUs that the filter admits, and picks CPUs of cores that the owner already uses.
func (s *Supply) start() {
	v := &s.view
	v.reset(s, s.have, &s.filter)
	v.picked = slices.Grow(v.picked, s.request.CPUs)
	if !v.spread {
		v.completeCores(s.request.CPUs, s.filter.wholeCores)
	}
}

// tooFew refuses when the filter leaves too little.
func (s *Supply) tooFew() *Refusal {
	v, o, asked := &s.view, &s.request.Options, s.request.CPUs
	if v.total.cpus()+len(v.picked) >= asked {
		return nil
	}
	left := slices.Clone(s.free)
	if keep(left, s.filter.isolated); count(left) < asked {
		return s.refuse(TooFewIsolated, count(left), "isolated-cpus: require takes only CPUs that the kernel isolates since boot (isolcpus); write prefer, or isolate more")
	}
	if keep(left, s.filter.coreType); count(left) < asked {
		return s.refuse(TooFewOfCoreType, count(left), "core-type: %s takes only cores of that kind; write prefer-%s, or request fewer", o.CoreType, o.CoreType)
	}
	if o.FullPCPUsOnly {
		return s.refuseFragments()
	}
	return s.refuse(TooFewUntouchedCores, v.total.cpus(),
		"the other free CPUs are in cores that belong in part to another owner or pool (one-owner-per-core); request fewer, or wait until others end")
}

func (s *Supply) refuseFragments() *Refusal {
	s.never = fmt.Sprintf("full-pcpus-only takes only whole cores, and the cores of the pool never add up to %d CPUs; request another number, or disable the option",
		s.request.CPUs+count(s.have))
	return s.refuse(TooFewWholeCores, s.view.total.cpus(),
		"full-pcpus-only takes only completely free cores, and these are too few; request fewer, or see "+defragment)
}

// completeCores picks usable CPUs, at most n, of cores of which the owner has a part. Cores that
// become complete come first, and among them the cores that lack the fewest CPUs. With whole, it
// picks no CPUs of other cores.
func (v *view) completeCores(n int, whole bool) {
	if len(v.own) == 0 {
		return
	}
	for k := 1; k <= v.m.threads; k++ {
		for i := range v.m.cores {
			if v.own[i] && int(v.coreFree[i]) == k && k <= n && v.completes(int32(i)) {
				v.take(int32(i), k)
				n -= k
			}
		}
	}
	for i := range v.m.cores {
		if k := min(n, int(v.coreFree[i])); v.own[i] && k > 0 && !whole {
			v.take(int32(i), k)
			n -= k
		}
	}
}

// completes reports whether the owner has all online threads of core i after it takes
// the usable ones.
func (v *view) completes(i int32) bool {
	for _, cpu := range v.m.cores[i].threads {
		if !hasBit(v.usable, int(cpu)) && !hasBit(v.have, int(cpu)) {
			return false
		}
	}
	return true
}

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

// Supply is a set of CPUs to choose from. It is not safe for concurrent use.
type Supply struct {
	m       *Machine
	free    []uint64 // a bitset
	had     []uint64 // memory for an owner's CPUs, a bitset.
	view    view     // kept for its memory, and because it may still be right
	scratch scratch
	// The fields below belong to the last Take. It tries to meet the request first with all its
	// preferences, then with fewer. Filter, hinted and search belong to the last attempt.
	request    Request
	have       []uint64 // a bitset of Have; nil when it is empty
	never      string   // reason of the last refusal for the case that other owners do not cause it
	filter     filter
	hinted     []bool // marks the nodes of the hint, by index; nil without a hint
	search     search
	considered int // number of combinations of the last Take
	steps      int // number of steps of its distributions
}

// Supply returns the supply of the CPUs of a set that are online.
func (m *Machine) Supply(cpus cpuset.Set) *Supply {
	words := make([]uint64, 4*m.words) // in one piece: most supplies serve once
	next := func() []uint64 {
		w := words[:m.words:m.words]
		words = words[m.words:]
		return w
	}
	s := &Supply{m: m, free: next(), had: next()}
	s.view.have, s.view.usable = next(), next()
	m.mark(s.free, cpus)
	return s
}

// Reset makes s the supply of other CPUs. It keeps its memory: the allocation is most of
// the cost of a new supply for a few CPUs of a large machine.
func (s *Supply) Reset(cpus cpuset.Set) {
	clear(s.free)
	s.m.mark(s.free, cpus)
	s.view.extent = someCPUs
}

func count(words []uint64) int {
	n := 0
	for _, w := range words {
		n += bits.OnesCount64(w)
	}
	return n
}
