package managers

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Files of tuned (tuned, consts.py; tuned-main.conf(5)).
const (
	tunedActive = "etc/tuned/active_profile"
	tunedPost   = "etc/tuned/post_loaded_profile"
	tunedMain   = "etc/tuned/tuned-main.conf"
	tunedPID    = "run/tuned/tuned.pid"
)

// Limits of the input.
const (
	maxProfiles = 32   // profiles, with the included ones
	maxSetting  = 4096 // bytes of a value
)

// tunedDirs returns the directories of profiles if tuned-main.conf has no profile_dirs. The
// first one takes precedence.
func tunedDirs() []string {
	return []string{"etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"}
}

// Tuned holds the settings of CPUs in the active profiles of tuned.
type Tuned struct {
	// Profiles holds the names of the active profiles; empty if tuned applies no profile.
	Profiles []string
	// Known is true if a file with the names of profiles exists. In a container the file of
	// the host may be missing.
	Known bool
	// PID is the process of the tuned daemon, or 0. Its settings stay after it stops.
	PID int
	// Settings are sorted by aspect, then in the order in which tuned reads them.
	Settings []TunedSetting
	// Unreadable holds files that cannot be parsed, and names of missing profiles.
	Unreadable []FileError
}

// TunedSetting is one option of a profile.
type TunedSetting struct {
	Aspect Aspect
	// Key is the section and the option, such as "irqbalance.banned_cpus", or the path of
	// the file that tuned writes.
	Key string
	// Value is the value of the option. Variables are replaced, functions are not.
	Value string
	// Source is the file of the profile.
	Source string
}

// Aspect is the part of a host that a setting changes.
type Aspect string

// Aspects, in the order of reports.
const (
	Threads    Aspect = "affinity of threads"
	Interrupts Aspect = "interrupts"
	Workqueues Aspect = "workqueues"
	Services   Aspect = "CPUs of host services"
	Power      Aspect = "frequency and C-states"
	BootCPUs   Aspect = "kernel arguments about CPUs"
)

func aspects() []Aspect {
	return []Aspect{Threads, Interrupts, Workqueues, Services, Power, BootCPUs}
}

// Of returns the settings that have one of the aspects.
func (t *Tuned) Of(of ...Aspect) []TunedSetting {
	var all []TunedSetting
	for _, s := range t.Settings {
		if slices.Contains(of, s.Aspect) {
			all = append(all, s)
		}
	}
	return all
}

// ReadTuned reads the active profiles and the profiles that they include. tuned applies them
// when it starts, so they count although tuned may not run. Missing files are no error.
func ReadTuned(root fs.FS) Tuned {
	r := tunedReader{root: root, dirs: tunedDirs(), variables: make(map[string]string), seen: make(map[string]bool)}
	if b, ok := r.read(tunedMain); ok {
		if dirs := profileDirs(parseTuned(b)); len(dirs) > 0 {
			r.dirs = dirs
		}
	}
	for _, name := range []string{tunedActive, tunedPost} {
		if b, ok := r.read(name); ok {
			r.Known = true
			r.Profiles = append(r.Profiles, strings.Fields(string(b))...)
		}
	}
	for _, name := range r.Profiles {
		r.profile(name, "/"+tunedActive)
	}
	for i := range r.Settings { // tuned replaces variables after it has merged all profiles
		r.Settings[i].Value = r.expand(r.Settings[i].Value)
	}
	slices.SortStableFunc(r.Settings, func(a, b TunedSetting) int {
		return cmp.Compare(slices.Index(aspects(), a.Aspect), slices.Index(aspects(), b.Aspect))
	})
	r.PID = r.daemonPID()
	return r.Tuned
}

// tunedReader holds the state of ReadTuned.
type tunedReader struct {
	Tuned
	root      fs.FS
	dirs      []string
	variables map[string]string
	seen      map[string]bool
}

// read reads a file. It adds an existing file that it cannot read to Unreadable.
func (r *tunedReader) read(name string) ([]byte, bool) {
	b, err := readFile(r.root, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Unreadable = append(r.Unreadable, FileError{"/" + name, err})
	}
	return b, err == nil
}

// daemonPID returns the process of the PID file if it is tuned, otherwise 0.
func (r *tunedReader) daemonPID() int {
	b, ok := r.read(tunedPID)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if !ok || err != nil || pid <= 0 {
		return 0
	}
	line, err := readFile(r.root, path.Join("proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || !strings.Contains(string(line), "tuned") {
		return 0
	}
	return pid
}

// profile reads a profile after the profiles that it includes, because its options override
// theirs. source is the file that names the profile.
func (r *tunedReader) profile(name, source string) {
	if r.seen[name] || len(r.seen) >= maxProfiles {
		return
	}
	r.seen[name] = true
	file, sections := r.find(name)
	if file == "" {
		r.Unreadable = append(r.Unreadable, FileError{source, fmt.Errorf("profile %q is in none of /%s", name, strings.Join(r.dirs, ", /"))})
		return
	}
	for _, s := range sections {
		if s.name == "main" {
			for _, include := range strings.FieldsFunc(r.expand(s.value("include")), func(c rune) bool { return c == ',' || c == ' ' }) {
				include, optional := strings.CutPrefix(include, "-")
				if strings.Contains(include, "${") {
					continue // a function of tuned
				}
				if found, _ := r.find(include); found != "" || !optional {
					r.profile(include, "/"+file)
				}
			}
		}
	}
	for _, s := range sections {
		if s.name == "variables" {
			r.define(s)
		}
	}
	for _, s := range sections {
		r.addSettings(s, "/"+file)
	}
}

// find returns the file of a profile and its sections, or "" if no directory has it.
func (r *tunedReader) find(name string) (string, []tunedSection) {
	if !fs.ValidPath(name) || strings.Contains(name, "/") || name == "." {
		return "", nil
	}
	for _, dir := range r.dirs {
		file := path.Join(dir, name, "tuned.conf")
		if b, ok := r.read(file); ok {
			return file, parseTuned(b)
		}
	}
	return "", nil
}

// define records variables. It reads an included file of variables first, as tuned does.
func (r *tunedReader) define(s tunedSection) {
	if file := strings.TrimPrefix(s.value("include"), "/"); file != "" && fs.ValidPath(file) {
		if b, ok := r.read(file); ok {
			for _, included := range parseTuned(b) {
				if included.name == "" || included.name == "variables" {
					r.define(tunedSection{options: slices.DeleteFunc(included.options, func(o tunedOption) bool { return o.key == "include" })})
				}
			}
		}
	}
	for _, o := range s.options {
		if value := r.expand(o.value); o.key != "include" && !strings.Contains(value, "${"+o.key+"}") && !strings.Contains(o.key, "assert") {
			r.variables[o.key] = value
		}
	}
}

// expand replaces known variables. Functions, ${f:...}, stay. A text that would exceed
// maxSetting is returned unchanged.
func (r *tunedReader) expand(text string) string {
	var b strings.Builder
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "${")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, remainder, closed := strings.Cut(after, "}")
		if value, known := r.variables[name]; closed && known {
			b.WriteString(value)
			rest = remainder
		} else {
			b.WriteString("${")
			rest = after
		}
		if b.Len()+len(rest) > maxSetting {
			return text
		}
	}
}

// addSettings adds the options of a section that change CPUs.
func (r *tunedReader) addSettings(s tunedSection, source string) {
	if enabled := strings.ToLower(s.value("enabled")); enabled == "false" || enabled == "0" || enabled == "no" {
		return
	}
	plugin := cmp.Or(s.value("type"), s.name)
	for _, o := range s.options {
		aspect := aspectOf(plugin, o.key, o.value)
		if aspect == "" || o.value == "" {
			continue
		}
		key := s.name + "." + o.key
		if strings.HasPrefix(o.key, "/") { // a file
			key = o.key
		}
		set := TunedSetting{Aspect: aspect, Key: key, Value: o.value, Source: source}
		// The option of a later profile replaces an earlier one.
		r.Settings = slices.DeleteFunc(r.Settings, func(t TunedSetting) bool { return t.Key == set.Key })
		r.Settings = append(r.Settings, set)
	}
}

// profileDirs returns profile_dirs of tuned-main.conf in reverse order: the last one takes
// precedence.
func profileDirs(sections []tunedSection) []string {
	var dirs []string
	for _, s := range sections {
		for dir := range strings.SplitSeq(s.value("profile_dirs"), ",") {
			if dir = strings.Trim(strings.TrimSpace(dir), "/"); fs.ValidPath(dir) && dir != "." {
				dirs = append(dirs, dir)
			}
		}
	}
	slices.Reverse(dirs)
	return dirs
}
