package migrate

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Keys of statements. They are keys of a configuration file if such a key exists.
const (
	keyShared     = "shared.cpus"
	keyGuaranteed = "guaranteed" // a list of CPUs, or fromShared
	keyFloor      = "guaranteed.floor"
	keyOptions    = "guaranteed.options."
	keyMixed      = "guaranteed.mixed.cpus"
	keyClaims     = "guaranteed.claims.cpus"
	keyInfra      = "infraContainers" // CPUs, until the partition that has them is known
	keyDomain     = "annotationDomain"
	keyAway       = "interrupts.away"
	keyPower      = "power"
	keyReserved   = "reservedSystemCPUs"
	keyBoot       = "nohz_full"
	keyBesides    = "ovsDpdk" // reserved CPUs that are in no pool
	keyPolicy     = "cpuManagerPolicy"
	keyStrict     = "cpuManagerPolicyOptions." + strict
	keyMemory     = "guaranteed.memory"

	fromShared = "shared"
	allCPUs    = "all"
	autoCPUs   = "auto" // the first cores of the machine
)

// partitionKey returns the key for the CPUs of a management pool. Its value is a list, or allCPUs.
func partitionKey(typ string) string { return "partitions." + typ + ".cpus" }

// statement is the value of a key in one source.
type statement struct{ value, source string }

// facts holds the statements of all sources.
type facts struct {
	said    map[string]statement
	present cpuset.Set // CPUs of the machine; empty if it is not known
	// annotations holds the annotations of namespaces.
	annotations map[string]map[string]string
	// permitted are the namespaces of management pools, by type, that the files name themselves.
	permitted map[string][]string
	// byText is true if a profile pins as the enhancements state, and reserved CPUs are only counted.
	byText bool
	// partitioned is true if one of the files exists only on a partitioned node.
	partitioned bool
	notes       []Note
	errs        []error
	inside      int // bytes of files in MachineConfigs
	// afterwards are looked at when everything else is known.
	afterwards []func()
}

// permit lets the pods of a namespace ask for a management pool.
func (f *facts) permit(typ, namespace string) { f.permitted[typ] = append(f.permitted[typ], namespace) }

// say adds a statement. A list replaces a value without a list (all, auto).
func (f *facts) say(key, value, source string) {
	was, said := f.said[key]
	pool := strings.HasPrefix(key, "partitions.")
	switch {
	case !said || pool && noList(was.value):
		f.said[key] = statement{value, source}
	case was.value == value || pool && noList(value):
	default:
		f.contradict(strings.TrimSuffix(key, "."), was, statement{value, source})
	}
}

// noList reports whether the CPUs of a management pool are not a list.
func noList(value string) bool { return value == allCPUs || value == autoCPUs }

func (f *facts) contradict(key string, a, b statement) {
	f.fail("%w about %s: %s has %s, and %s has %s; remove or correct one of them", ErrContradiction, key, a.source, a.value, b.source, b.value)
}

func (f *facts) fail(format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf(format, args...))
}

func (f *facts) note(source, reason, remedy string) {
	f.notes = append(f.notes, Note{source, reason, remedy})
}

// cpus parses a list of CPUs. A mistake in the list is a failure.
func (f *facts) cpus(source, text string) cpuset.Set {
	set, err := parseCPUs(text, f.present)
	if err != nil {
		f.fail("%s: %w", source, err)
	}
	return set
}

// parseCPUs parses a list of CPUs that a machine has; an empty set stands for one that is
// not known.
func parseCPUs(text string, present cpuset.Set) (cpuset.Set, error) {
	set, err := cpuset.Parse(text)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("%q: %w", shorten(text), ErrCPUs)
	}
	if absent := set.Difference(present); !present.IsEmpty() && !absent.IsEmpty() {
		return cpuset.Set{}, fmt.Errorf("%q: %w; it has %s", shorten(text), ErrNoSuchCPU, present)
	}
	return set, nil
}

// lists returns the CPUs of all management pools with a list, and the source of the lists.
func (f *facts) lists() (all cpuset.Set, source string) {
	for _, s := range f.partitions() {
		if !noList(s.value) {
			all = all.Union(parsed(s.value))
			source = s.source
		}
	}
	return all, source
}

// parsed is a set that was parsed before.
func parsed(list string) cpuset.Set {
	set, _ := cpuset.Parse(list)
	return set
}

// settle decides what depends on several sources.
func (f *facts) settle() {
	f.settleReserved()
	f.settleInfra()
	f.settleBoot()
	for _, look := range f.afterwards {
		look()
	}
	if _, ok := f.said[keyShared]; !ok {
		return
	}
	if g := f.said[keyGuaranteed]; g.value != "" && g.value != fromShared {
		if both := parsed(f.said[keyShared].value).Intersection(parsed(g.value)); !both.IsEmpty() {
			f.fail("%w about CPUs %s: %s has them, and so has %s; take them out of one", ErrContradiction, both, f.said[keyShared].source, g.source)
		}
	}
}

// managed reports whether a management pool exists.
func (f *facts) managed() bool { return len(maps.Collect(f.partitions())) > 0 }

// settleReserved makes a management pool of the kubelet's reserved CPUs, unless there is
// one, which they have to be then. Reserved CPUs that are mixed ones, or that pods use and
// no pool has, are OpenShift's way of keeping ordinary pods off them.
func (f *facts) settleReserved() {
	r, ok := f.said[keyReserved]
	if !ok || f.byText {
		return
	}
	lists, source := f.lists()
	reserved := parsed(r.value)
	besides := parsed(f.said[keyMixed].value).Union(parsed(f.said[keyBesides].value)).Intersection(reserved)
	management := reserved.Difference(besides)
	if claims := f.claims(management, lists); !claims.IsEmpty() {
		f.say(keyClaims, claims.String(), r.source)
		f.note(r.source, "the kubelet reserves CPUs "+claims.String()+", and nohz_full= names them: they become CPUs for ResourceClaims, and no pod gets them without a claim",
			"remove guaranteed.claims to give them to other pools")
		if management, reserved = management.Difference(claims), reserved.Difference(claims); management.IsEmpty() {
			return
		}
	}
	switch {
	case lists.IsEmpty() && management.IsEmpty():
		management = reserved
		fallthrough
	case lists.IsEmpty():
		f.say(partitionKey("management"), management.String(), r.source)
		if f.lax(r) {
			return
		}
	case !reserved.Equal(lists) && !management.Equal(lists):
		f.contradict("the CPUs of management pools", statement{lists.String(), source}, r)
		return
	}
	f.keepOff(management, besides, r)
}

// claims returns the reserved CPUs that render writes for guaranteed.claims: the kernel keeps work off them, and no
// management pool has them.
func (f *facts) claims(reserved, lists cpuset.Set) cpuset.Set {
	claims := reserved.Difference(lists).Intersection(parsed(f.said[keyBoot].value))
	if f.said[keyPolicy].value == "static" || !f.managed() && claims.Equal(reserved) {
		return cpuset.Set{}
	}
	return claims
}

// keepOff makes the shared pool a list without reserved CPUs that are in no management pool.
func (f *facts) keepOff(management, besides cpuset.Set, reserved statement) {
	_, said := f.said[keyShared]
	if said || besides.IsEmpty() {
		return
	}
	if f.present.IsEmpty() {
		f.note(reserved.source, "ordinary pods are kept off CPUs "+besides.String()+" by it, which are in no management pool; here they run on them",
			"give the machine with --topology, such as --topology 1s16c2t, to have a shared pool without them")
		return
	}
	if g := f.said[keyGuaranteed]; g.value == fromShared || g.value == "" {
		f.say(keyShared, f.present.Difference(management.Union(besides, parsed(f.said[keyClaims].value))).String(), reserved.source)
	}
}

// lax allows ordinary pods on the kubelet's reserved CPUs if the kubelet allows them. It
// reports whether it does.
func (f *facts) lax(reserved statement) bool {
	policy, option := f.said[keyPolicy], f.said[keyStrict]
	if policy.value == "static" && option.value == "true" {
		return false
	}
	source := cmp.Or(option.source, policy.source, reserved.source)
	f.say(keyOptions+strict, "false", source)
	if policy.value != "static" {
		f.note(reserved.source, "without the policy static the kubelet only counts these CPUs and keeps no process off them; here management pods are pinned to them, and the shared pool has them, too",
			"remove strict-cpu-reservation: false to keep ordinary pods off them")
	}
	return true
}

// settleInfra finds the management pool in which pause containers run.
func (f *facts) settleInfra() {
	infra, ok := f.said[keyInfra]
	if !ok {
		return
	}
	delete(f.said, keyInfra)
	for typ, s := range f.partitions() {
		if s.value == infra.value {
			f.said[keyInfra] = statement{typ, infra.source}
			return
		}
	}
	f.note(infra.source, "pause containers run on "+infra.value+", which are not the CPUs of any management pool",
		"give these CPUs to one and name it in infraContainers; without it, pause containers run with their pods")
}

// partitions yields the types of the management pools, sorted, and the statements of their CPUs.
func (f *facts) partitions() iter.Seq2[string, statement] {
	return func(yield func(string, statement) bool) {
		for _, key := range slices.Sorted(maps.Keys(f.said)) {
			rest, is := strings.CutPrefix(key, "partitions.")
			if is && !yield(strings.TrimSuffix(rest, ".cpus"), f.said[key]) {
				return
			}
		}
	}
}

// settleBoot uses the CPUs of nohz_full= as the guaranteed pool if no other source states
// one, because render writes the argument for that pool. In other files it can have another
// purpose, so a note states the effect. The pool must leave a CPU for ordinary pods.
func (f *facts) settleBoot() {
	boot, ok := f.said[keyBoot]
	if !ok {
		return
	}
	delete(f.said, keyBoot)
	lists, _ := f.lists()
	claims := parsed(f.said[keyClaims].value)
	taken := parsed(boot.value).Difference(claims)
	rest := f.present.Difference(lists.Union(taken, claims, parsed(f.said[keyMixed].value)))
	g, said := f.said[keyGuaranteed]
	switch {
	case taken.IsEmpty(): // all of them are for claims
	case !said && !f.present.IsEmpty() && rest.IsEmpty():
		f.note(boot.source, "the kernel argument nohz_full="+boot.value+" does not make these CPUs the guaranteed pool: no CPU would be left for ordinary pods",
			"write guaranteed.from: shared to give pods exclusive CPUs")
	case !said && !taken.Overlaps(lists):
		f.said[keyGuaranteed] = statement{taken.String(), boot.source}
		left, which := "all CPUs outside this and other pools", "these CPUs"
		if !claims.IsEmpty() {
			which = "CPUs " + taken.String()
		}
		if !f.present.IsEmpty() {
			left = "CPUs " + rest.String()
		}
		f.note(boot.source, "the kernel argument nohz_full="+boot.value+" makes "+which+" the guaranteed pool, and ordinary pods run on "+left,
			"write guaranteed.from: shared instead of the list if exclusive CPUs are only taken when pods ask")
	case g.value == fromShared:
		f.note(boot.source, "the kernel argument nohz_full="+boot.value+" is no pool here: exclusive CPUs come from the shared pool", "keep it, and compare it with the arguments of kubectl cpupool render --format kernel")
	case g.value != taken.String():
		f.note(boot.source, "the kernel argument nohz_full="+boot.value+" does not set the guaranteed pool here: other keys set it, or these are management CPUs",
			"compare it with what kubectl cpupool render --format kernel prints")
	}
}

// shorten keeps an error readable whatever the file holds.
func shorten(text string) string { return layout.Clip(text, 64) }
