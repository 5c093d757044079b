package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Kind is the kind of a named object. Its value begins the replacement of the name.
type Kind string

// Kinds of names that are replaced.
const (
	Namespace Kind = "namespace"
	Pod       Kind = "pod"
	Container Kind = "container"
	Unit      Kind = "unit"
	Claim     Kind = "claim"   // a ResourceClaim
	Request   Kind = "request" // of a ResourceClaim
	Host      Kind = "host"
	Image     Kind = "image"
	Profile   Kind = "profile" // of tuned
	Drop      Kind = "file"    // of a drop-in directory
	Section   Kind = "section" // of CRI-O's configuration
	Domain    Kind = "domain"
)

// Redactor replaces names. A name has the same replacement everywhere.
type Redactor struct {
	words  map[string]string // replacement by name
	counts map[Kind]int
	// lengths holds, by first byte, the lengths of names in descending order.
	lengths     [256][]int
	commonUnits *regexp.Regexp
	foreign     foreignTask
	positions   map[string]string // replacements in the text of foreign tasks
}

// NewRedactor returns a Redactor without names.
func NewRedactor() *Redactor {
	return &Redactor{words: make(map[string]string), counts: make(map[Kind]int), commonUnits: commonUnits(), foreign: foreignTasks(), positions: make(map[string]string)}
}

// isPublic reports whether a name may stay: it exists in every cluster, or is cpupoold's.
func isPublic(name string) bool {
	return slices.Contains([]string{"", "POD", "default", "kube-system", "kube-public", "kube-node-lease", "cpupoold", "localhost", "-", "none"}, name)
}

// Add adds a name to replace. If several objects have the name, the first kind counts:
// texts do not contain the kind.
func (r *Redactor) Add(k Kind, name string) {
	if isPublic(name) || r.words[name] != "" {
		return
	}
	r.counts[k]++
	r.replace(name, fmt.Sprintf("%s-%d", k, r.counts[k]))
}

// AddUnit adds the name of a systemd unit, with and without its suffix.
func (r *Redactor) AddUnit(name string) {
	i := strings.LastIndexByte(name, '.')
	if i <= 0 || r.words[name] != "" {
		return
	}
	stem, suffix := name[:i], name[i:]
	if r.Add(Unit, stem); r.words[stem] != "" {
		r.replace(name, r.words[stem]+suffix)
	}
}

// replace also replaces the quoted form of a name: JSON and Go quote \x2d of systemd.
func (r *Redactor) replace(name, word string) {
	r.words[name] = word
	r.index(name)
	if quoted, err := json.Marshal(name); err == nil {
		inner := string(quoted[1 : len(quoted)-1])
		r.words[inner] = word
		r.index(inner)
	}
}

func (r *Redactor) index(name string) {
	of := &r.lengths[name[0]]
	if !slices.Contains(*of, len(name)) {
		*of = append(*of, len(name))
		slices.SortFunc(*of, func(a, b int) int { return b - a })
	}
}

// isAmbiguous reports whether a replacement could change a fact: a number or a common word.
func isAmbiguous(name string) bool {
	if strings.Trim(name, "0123456789-,.") == "" {
		return true
	}
	return slices.Contains(strings.Fields(`all asked audit before cause cgroup cgroups check code config container containers cpu cpus cpuset cri
		daemon dbus domain drift effective error event events exclusive failed false file floor free from guaranteed host hosts idle image images info
		interrupts isolated kernel kind limit load log main management max member mems min mixed mode name namespace namespaces nodes node none nri
		off on online options owner owned partition partitions path period placed pod pods policy pool pools power problem quota reason
		report resources root rules runtime service services shared shares slice source sources stat state static status system systemd
		target test text threads time type types unit units user users value version via wait warning weight workload workloads wrote`), name)
}

// Text replaces the names in a text, except ambiguous ones. It replaces whole words, without
// a letter or digit before or after them, and prefers the longest name.
func (r *Redactor) Text(s string) string {
	s = r.hideForeignTasks(s)
	var b strings.Builder
	done := 0
	for i := 0; i < len(s); {
		n := r.nameAt(s, i)
		if n == 0 {
			i++
			continue
		}
		b.WriteString(s[done:i])
		b.WriteString(r.words[s[i:i+n]])
		i += n
		done = i
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// nameAt returns the length of the name at s[i:], or 0 if no name starts there.
func (r *Redactor) nameAt(s string, i int) int {
	if i > 0 && isWord(s[i-1]) && isWord(s[i]) && !isEscaped(s, i) {
		return 0
	}
	for _, n := range r.lengths[s[i]] {
		end := i + n
		if end > len(s) || r.words[s[i:end]] == "" || isAmbiguous(s[i:end]) {
			continue
		}
		if end == len(s) || !isWord(s[end]) || !isWord(s[end-1]) {
			return n
		}
	}
	return 0
}

// isEscaped reports whether s[i] follows an escape of JSON (\n, \t), whose letter is no word.
func isEscaped(s string, i int) bool {
	return i >= 2 && s[i-2] == '\\' && strings.IndexByte("nrtbf", s[i-1]) >= 0
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

// hasFixedValues reports whether a key holds values of cpupoold, which stay.
func hasFixedValues(key string) bool {
	return slices.Contains([]string{
		"pool", "type", "kind", "code", "use", "mode", "state", "via", "property", "severity", "check", "time", "started",
		"cpus", "away", "lent", "device", "coreType", "mixed", "mems", "effective", "memsEffective", "partition", "free", "owned", "idle", "resting", "parked", "possible", "present", "online",
		"isolated", "nohzFull",
	}, key)
}

// claimOwner begins the owner of a CPU of a ResourceClaim.
const claimOwner = "claim "

func hasNames(key string) bool {
	return slices.Contains([]string{"name", "pod", "namespace", "container", "containers", "unit", "owner", "node", "claim", "claims", "request"}, key)
}

// field replaces the names in a field that holds names, ambiguous ones too.
func (r *Redactor) field(s string) string {
	if claim, is := strings.CutPrefix(s, claimOwner); is {
		return claimOwner + r.field(claim)
	}
	if word := r.words[s]; word != "" {
		return word
	}
	parts := strings.Split(s, "/")
	for i, part := range parts {
		if word := r.words[part]; word != "" {
			parts[i] = word
		} else {
			parts[i] = r.Text(part)
		}
	}
	return strings.Join(parts, "/")
}

// Lines replaces names in the paths of [Cgroups]. It drops lines that are not JSON.
func (r *Redactor) Lines(lines []byte) []byte {
	var out []byte
	for line := range bytes.Lines(lines) {
		var at map[string]string
		if json.Unmarshal(line, &at) != nil {
			continue
		}
		at["cgroup"] = r.Text(at["cgroup"])
		line, err := json.Marshal(at)
		if err == nil {
			out = append(append(out, line...), '\n')
		}
	}
	return out
}

// JSON replaces names in the strings of a document, not in keys. The result is indented.
func (r *Redactor) JSON(data []byte) ([]byte, error) {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("parse JSON: %w", err)
	}
	return json.MarshalIndent(r.value("", v), "", "  ")
}

func (r *Redactor) value(key string, v any) any {
	switch v := v.(type) {
	case string:
		switch {
		case hasFixedValues(key):
			return v
		case hasNames(key):
			return r.field(v)
		}
		return r.Text(v)
	case []any:
		for i := range v {
			v[i] = r.value(key, v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = r.value(k, v[k])
		}
	}
	return v
}
