package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// The range of CFS shares: the kubelet's MinShares and MaxShares.
const (
	MinShares = 2
	MaxShares = 262144
)

// MilliCPUToShares converts a CPU request in thousandths of a CPU to the CPU
// shares, 2..262144, that the kubelet passes to the runtime for it (kubelet cm
// MilliCPUToShares). No request, and a negative one, is the minimum of 2.
func MilliCPUToShares(milli int64) uint64 {
	const sharesPerCPU, milliPerCPU = 1024, 1000
	if milli >= MaxShares*milliPerCPU/sharesPerCPU {
		return MaxShares
	}
	return uint64(max(max(milli, 0)*sharesPerCPU/milliPerCPU, MinShares))
}

// MaxMilliCPU bounds amounts of CPU, in thousandths of a CPU: a million CPUs.
const MaxMilliCPU = 1_000_000_000

// Resources are the CPU resources that an annotation gives a container.
type Resources struct {
	Shares     uint64 // CFS shares, MinShares..MaxShares, or 0 when not set
	LimitMilli int64  // CPU limit in thousandths of a CPU, or 0 when not set
}

// Encode returns the value of the annotation that gives a container r, with the
// keys that are set.
func (r Resources) Encode() string { return string(r.appendTo(make([]byte, 0, 48))) }

func (r Resources) appendTo(b []byte) []byte {
	b = append(b, '{')
	if r.Shares != 0 {
		b = strconv.AppendUint(append(b, `"cpushares":`...), r.Shares, 10)
	}
	if r.LimitMilli != 0 {
		if r.Shares != 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `"cpulimit":`...), r.LimitMilli, 10)
	}
	return append(b, '}')
}

// ContainerResources returns the CPU resources of a container in the pod's annotations, and
// false without an annotation. The old form is read for typ; the new
// form wins if both exist. A value of 0 means not set, as in CRI-O.
//
// The new form is a JSON object with the keys cpushares and cpulimit. Other keys
// are errors, cpuset above all: CRI-O would accept one there, but a pod may not choose
// its CPUs.
func (n Names) ContainerResources(annotations map[string]string, typ, container string) (Resources, bool, error) {
	if value, ok := n.lookup(annotations, resourcesPrefix, container); ok {
		r, err := parseResources(value)
		if err != nil {
			return Resources{}, true, &AnnotationError{n.ResourcesKey(container), value, err.Error(),
				`write {"cpushares":N}, or {"cpushares":N,"cpulimit":MILLICPU}`}
		}
		return r, true, nil
	}
	if !n.anyOldKey(annotations) {
		return Resources{}, false, nil
	}
	key := n.OldPrefix(typ) + "." + sharesResource + "/" + container
	value, ok := annotations[key]
	if !ok {
		return Resources{}, false, nil
	}
	shares, err := parseShares(value)
	if err != nil {
		return Resources{}, true, &AnnotationError{key, value, err.Error(), fmt.Sprintf("write CPU shares, %d to %d", MinShares, MaxShares)}
	}
	return Resources{Shares: shares}, true, nil
}

// lookup returns the annotation of a prefix, the domain, a slash and a name. It is called for each
// container in each plan, and makes no string.
func (n Names) lookup(annotations map[string]string, prefix, name string) (string, bool) {
	var room [192]byte
	key := append(append(append(append(room[:0], prefix...), n.domain()...), '/'), name...)
	value, ok := annotations[string(key)]
	return value, ok
}

// anyOldKey reports whether there is an annotation in the old form.
func (n Names) anyOldKey(annotations map[string]string) bool {
	for key := range annotations {
		if _, ok := parseOldKey(key, n.domain()); ok {
			return true
		}
	}
	return false
}

// CheckOldForm returns an error for each annotation in the old form that has no effect, by
// name. These are annotations for another resource than cpushares, such as a cpuset, and for
// another workload type than typ. For a pod of no type pass "". The type in
// the name does not matter then.
func (n Names) CheckOldForm(annotations map[string]string, typ string) []*AnnotationError {
	var bad []*AnnotationError
	for key, value := range annotations {
		k, ok := parseOldKey(key, n.domain())
		if !ok {
			continue
		}
		if problem, remedy := n.checkOldKey(k, typ); problem != "" {
			bad = append(bad, &AnnotationError{key, value, problem, remedy})
		}
	}
	slices.SortFunc(bad, func(a, b *AnnotationError) int { return strings.Compare(a.Key, b.Key) })
	return bad
}

// checkOldKey returns problem and remedy of a name in the old form, "" if it is right.
func (n Names) checkOldKey(k oldKey, typ string) (problem, remedy string) {
	const remove = "remove the annotation"
	switch {
	case k.resource == "cpuset":
		return choosesCPUs, remove
	case k.resource == "":
		return "no resource in front of the slash", "write " + clip(n.ResourcesKey(k.container)) + `: {"cpushares":N}, or remove it`
	case k.resource != sharesResource:
		return "unknown resource " + quote(k.resource), remove
	case typ != "" && k.typ != typ:
		return "it is for workload type " + quote(k.typ) + ", and the pod asks for " + quote(typ), remove
	}
	return "", ""
}

// choosesCPUs is the problem of a cpuset in an annotation of either form.
const choosesCPUs = "a pod cannot choose its CPUs: cpuset"

// plain parses the output of Encode and of webhooks: nearly all values, at a tenth of the cost
// of parsing any JSON.
func plain(value string) (r Resources, ok bool) {
	numbers, ok := strings.CutPrefix(value, `{"cpushares":`)
	if !ok {
		return Resources{}, false
	}
	shares, limit, both := strings.Cut(strings.TrimSuffix(numbers, "}"), `,"cpulimit":`)
	var err error
	if r.Shares, err = parseShares(shares); err == nil && both {
		r.LimitMilli, err = parseLimit(limit)
	}
	var room [64]byte
	return r, err == nil && string(r.appendTo(room[:0])) == value
}

func parseResources(value string) (Resources, error) {
	if r, ok := plain(value); ok {
		return r, nil
	}
	members, err := parseObject(value)
	if err != nil {
		return Resources{}, err
	}
	var r Resources
	for _, m := range members {
		number, isNumber := m.value.(json.Number)
		switch {
		case m.key == "cpuset":
			err = errors.New(choosesCPUs)
		case m.key != sharesResource && m.key != "cpulimit":
			err = errors.New("unknown key " + quote(m.key))
		case !isNumber:
			err = errors.New(m.key + " is not a number")
		case m.key == sharesResource:
			r.Shares, err = parseShares(string(number))
		default:
			r.LimitMilli, err = parseLimit(string(number))
		}
		if err != nil {
			return Resources{}, err
		}
	}
	return r, nil
}

func parseShares(s string) (uint64, error) {
	v, err := parseCount(s)
	if err != nil {
		return 0, fmt.Errorf("cpushares %w", err)
	}
	if v != 0 && v < MinShares || v > MaxShares {
		return 0, fmt.Errorf("cpushares is outside %d to %d", MinShares, MaxShares)
	}
	return v, nil
}

func parseLimit(s string) (int64, error) {
	v, err := parseCount(s)
	if err != nil {
		return 0, fmt.Errorf("cpulimit %w", err)
	}
	if v > MaxMilliCPU {
		return 0, fmt.Errorf("cpulimit is above %d", MaxMilliCPU)
	}
	return int64(v), nil
}

// parseCount reads decimal digits, without sign, fraction or exponent.
func parseCount(s string) (uint64, error) {
	if strings.HasPrefix(s, "-") {
		return 0, errors.New("is negative")
	}
	v, err := strconv.ParseUint(s, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errors.New("is too large")
	case err != nil:
		return 0, errors.New("is not a whole number")
	}
	return v, nil
}

// AnnotationError is an annotation that does not count as it stands.
type AnnotationError struct {
	Key, Value string
	// Problem is the reason, and Remedy the correction.
	Problem, Remedy string
}

// Error returns one line with all fields. Name and value can have any length, and are cut so
// that they fit a log line and an event.
func (e *AnnotationError) Error() string {
	return fmt.Sprintf("annotation %s: value %s: %s; %s", clip(e.Key), quote(e.Value), e.Problem, e.Remedy)
}

// quote makes s printable on one line.
func quote(s string) string {
	const limit = 80
	if len(s) > limit {
		return strconv.Quote(s[:limit]) + "... (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return strconv.Quote(s)
}

// clip leaves an annotation name as it is when it is one that the API server
// accepts, and makes everything else printable.
func clip(key string) string {
	const limit = 253 + len("/") + 63
	if len(key) > limit {
		return quote(key)
	}
	for _, r := range key {
		if r <= ' ' || r > '~' || r == '"' {
			return quote(key)
		}
	}
	return key
}

// maxValue is the maximum length of a parsed value, in bytes. Webhooks write less
// than 64.
const maxValue = 1024

// member is one key of a JSON object. value is what [json.Decoder.Token] gives
// with numbers kept as text: string, json.Number, bool or nil.
type member struct {
	key   string
	value any
}

// parseObject reads one flat JSON object. Unlike [json.Unmarshal] it refuses
// repeated keys, of which different readers take different ones, and keeps keys
// as they are spelled.
func parseObject(s string) ([]member, error) {
	if len(s) > maxValue {
		return nil, errors.New("too long")
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var members []member
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, errors.New("malformed JSON")
		}
		value, err := d.Token()
		if err != nil {
			return nil, errors.New("malformed JSON")
		}
		if _, nested := value.(json.Delim); nested {
			return nil, errors.New("nested JSON")
		}
		for _, m := range members {
			if m.key == key {
				return nil, errors.New("repeated key " + quote(m.key))
			}
		}
		members = append(members, member{key.(string), value})
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return nil, errors.New("malformed JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the JSON object")
	}
	return members, nil
}
