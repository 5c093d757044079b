package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Kind is what sort of thing a name names; it is the word that stands for it.
type Kind string

// Kinds of names that are replaced.
const (
	Namespace Kind = "namespace"
	Pod       Kind = "pod"
	Container Kind = "container"
	Unit      Kind = "unit"
	Host      Kind = "host"
	Image     Kind = "image"
	Profile   Kind = "profile" // of tuned
	Drop      Kind = "file"    // of a drop-in directory
	Section   Kind = "section" // of CRI-O's configuration
	Domain    Kind = "domain"
)

// Redactor replaces names, each by the same word wherever it stands.
type Redactor struct {
	words  map[string]string
	counts map[Kind]int
	// lengths are those of the names that begin with a byte, the longest first.
	lengths  [256][]int
	ordinary *regexp.Regexp
}

// NewRedactor returns one that knows no names yet.
func NewRedactor() *Redactor {
	return &Redactor{words: make(map[string]string), counts: make(map[Kind]int), ordinary: ordinary()}
}

// public are names that every cluster has, and cpupoold's own: they tell nothing, and
// without them a report is hard to read.
func public(name string) bool {
	switch name {
	case "", "POD", "default", "kube-system", "kube-public", "kube-node-lease", "cpupoold", "localhost", "-", "none":
		return true
	}
	return false
}

// Add has a name replaced. Of a name that is there for several things the first
// counts: texts do not tell which is meant.
func (r *Redactor) Add(k Kind, name string) {
	if public(name) || r.words[name] != "" {
		return
	}
	r.counts[k]++
	r.enter(name, fmt.Sprintf("%s-%d", k, r.counts[k]))
}

// AddUnit has the name of a systemd unit replaced, and the name without its suffix.
func (r *Redactor) AddUnit(name string) {
	i := strings.LastIndexByte(name, '.')
	if i <= 0 || r.words[name] != "" {
		return
	}
	stem, suffix := name[:i], name[i:]
	if r.Add(Unit, stem); r.words[stem] != "" {
		r.enter(name, r.words[stem]+suffix)
	}
}

func (r *Redactor) enter(name, word string) {
	r.words[name] = word
	// JSON and Go quote what stands in a unit's name for other characters.
	if quoted, err := json.Marshal(name); err == nil && string(quoted[1:len(quoted)-1]) != name {
		r.index(string(quoted[1 : len(quoted)-1]))
		r.words[string(quoted[1:len(quoted)-1])] = word
	}
	r.index(name)
}

func (r *Redactor) index(name string) {
	of := &r.lengths[name[0]]
	if !slices.Contains(*of, len(name)) {
		*of = append(*of, len(name))
		slices.SortFunc(*of, func(a, b int) int { return b - a })
	}
}

// weak says that a name is a number, or a word that the files are full of: in a text it
// cannot be told from what is none, and to replace it there would change facts. It is
// replaced in fields of names alone.
func weak(name string) bool {
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

// Text replaces the names in a text, except weak ones, where they stand as words: with neither letter nor
// digit before or behind them. The longest goes first.
func (r *Redactor) Text(s string) string {
	var b strings.Builder
	done := 0
	for i := 0; i < len(s); {
		n := r.at(s, i)
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

// at is the length of the name at s[i:], 0 if none stands there.
func (r *Redactor) at(s string, i int) int {
	if i > 0 && isWord(s[i-1]) && isWord(s[i]) && !escaped(s, i) {
		return 0
	}
	for _, n := range r.lengths[s[i]] {
		end := i + n
		if end > len(s) || r.words[s[i:end]] == "" || weak(s[i:end]) {
			continue
		}
		if end == len(s) || !isWord(s[end]) || !isWord(s[end-1]) {
			return n
		}
	}
	return 0
}

// escaped says that s[i] stands behind an escape sequence as of JSON (\n, \t), whose letter is
// none of a word.
func escaped(s string, i int) bool {
	return i >= 2 && s[i-2] == '\\' && strings.IndexByte("nrtbf", s[i-1]) >= 0
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

// fixed says that the words under a key of a document are not replaced where they are none of names, whatever pods are
// called.
func fixed(key string) bool {
	switch key {
	case "pool", "type", "kind", "code", "use", "mode", "state", "via", "property", "severity", "check", "time", "started",
		"cpus", "mixed", "mems", "effective", "memsEffective", "partition", "free", "owned", "idle", "resting", "parked", "possible", "present", "online",
		"isolated", "nohzFull":
		return true
	}
	return false
}

// names says that a field holds a name, or several with slashes between them.
func names(key string) bool {
	switch key {
	case "name", "pod", "namespace", "container", "unit", "owner", "node":
		return true
	}
	return false
}

// field replaces the names that a field is made of.
func (r *Redactor) field(s string) string {
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

// Lines replaces the names in lines of JSON that [Cgroups] has made: in the paths, and in
// nothing else.
func (r *Redactor) Lines(lines []byte) []byte {
	var out []byte
	for line := range bytes.Lines(lines) {
		var at map[string]string
		if json.Unmarshal(line, &at) != nil {
			continue // none of ours
		}
		at["cgroup"] = r.Text(at["cgroup"])
		line, err := json.Marshal(at)
		if err == nil {
			out = append(append(out, line...), '\n')
		}
	}
	return out
}

// JSON replaces the names in the strings of a JSON document, and not its keys. The result
// is indented.
func (r *Redactor) JSON(data []byte) ([]byte, error) {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("take names out of JSON: %w", err)
	}
	return json.MarshalIndent(r.value("", v), "", "  ")
}

func (r *Redactor) value(key string, v any) any {
	switch v := v.(type) {
	case string:
		switch {
		case fixed(key):
			return v
		case names(key):
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
