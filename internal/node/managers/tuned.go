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

// Where tuned says what it does (tuned, consts.py; tuned-main.conf(5)).
const (
	tunedActive = "etc/tuned/active_profile"
	tunedPost   = "etc/tuned/post_loaded_profile"
	tunedMain   = "etc/tuned/tuned-main.conf"
	tunedPID    = "run/tuned/tuned.pid"
)

// Bounds of how many profiles include one another, and of a setting in bytes.
const (
	maxIncludes = 32
	maxSetting  = 4096
)

// tunedDirs are where profiles are if tuned-main.conf does not say, the last one first.
func tunedDirs() []string {
	return []string{"etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"}
}

// Tuned is the part of tuned's active profile that is about CPUs.
type Tuned struct {
	// Profiles are the names of the active ones; none where tuned does nothing.
	Profiles []string
	// Known says that there is a file with their names: a container may not see it.
	Known bool
	// PID is that of the daemon, 0 where none runs. What it has set stays set.
	PID int
	// Settings are by aspect, then in the order in which tuned reads them.
	Settings []TunedSetting
	// Unreadable are files that exist and could not be understood, and profiles that
	// there are not.
	Unreadable []FileError
}

// TunedSetting is one option of a profile.
type TunedSetting struct {
	Aspect Aspect
	// Key is the section and the option, "irqbalance.banned_cpus", or the file that is
	// written; Value is what is
	// written, with the variables that are plain texts.
	Key, Value string
	// Source is the profile's file.
	Source string
}

// Aspect is what of a machine a setting is about.
type Aspect string

// The aspects, in the order in which they are told.
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

// Of returns the settings of the aspects.
func (t *Tuned) Of(of ...Aspect) []TunedSetting {
	var all []TunedSetting
	for _, s := range t.Settings {
		if slices.Contains(of, s.Aspect) {
			all = append(all, s)
		}
	}
	return all
}

// ReadTuned reads which profiles are active, and those with all that they include. A
// profile that is chosen is one that tuned applies when it starts. Nothing is said where
// there are no files.
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
	for i := range r.Settings { // with all variables, as tuned does after it has merged
		r.Settings[i].Value = r.expand(r.Settings[i].Value)
	}
	slices.SortStableFunc(r.Settings, func(a, b TunedSetting) int {
		return cmp.Compare(slices.Index(aspects(), a.Aspect), slices.Index(aspects(), b.Aspect))
	})
	r.PID = r.daemon()
	return r.Tuned
}

// tunedReader is what is known in the middle of reading.
type tunedReader struct {
	Tuned
	root      fs.FS
	dirs      []string
	variables map[string]string
	seen      map[string]bool
}

// read reads a file, and notes one that cannot be read.
func (r *tunedReader) read(name string) ([]byte, bool) {
	b, err := readFile(r.root, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Unreadable = append(r.Unreadable, FileError{"/" + name, err})
	}
	return b, err == nil
}

// daemon is the process of the PID file, if that is one of tuned.
func (r *tunedReader) daemon() int {
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

// profile reads a profile after those that it includes: tuned merges options over theirs.
func (r *tunedReader) profile(name, by string) {
	if r.seen[name] || len(r.seen) >= maxIncludes {
		return
	}
	r.seen[name] = true
	file, sections := r.find(name)
	if file == "" {
		r.Unreadable = append(r.Unreadable, FileError{by, fmt.Errorf("profile %q is in none of /%s", name, strings.Join(r.dirs, ", /"))})
		return
	}
	for _, s := range sections {
		if s.name == "main" {
			for _, include := range strings.FieldsFunc(r.expand(s.value("include")), func(c rune) bool { return c == ',' || c == ' ' }) {
				// "-" before a name: it may be missing. Functions of tuned are not evaluated.
				include, optional := strings.CutPrefix(include, "-")
				if strings.Contains(include, "${") {
					continue
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
		r.settings(s, "/"+file)
	}
}

// find returns the file of a profile and what is in it.
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

// define notes variables. A file of them is included first, as in tuned's own profiles.
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

// expand puts in the variables that are known. Functions, ${f:...}, stay as they are, and
// so does what would become too long to be a setting.
func (r *tunedReader) expand(text string) string {
	var b strings.Builder
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "${")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, behind, closed := strings.Cut(after, "}")
		if value, known := r.variables[name]; closed && known {
			b.WriteString(value)
			rest = behind
		} else {
			b.WriteString("${")
			rest = after
		}
		if b.Len()+len(rest) > maxSetting {
			return text
		}
	}
}

// settings notes what a section sets about CPUs.
func (r *tunedReader) settings(s tunedSection, source string) {
	if enabled := strings.ToLower(s.value("enabled")); enabled == "false" || enabled == "0" || enabled == "no" {
		return
	}
	plugin := cmp.Or(s.value("type"), s.name)
	for _, o := range s.options {
		aspect := tunedAspect(plugin, o.key, o.value)
		if aspect == "" || o.value == "" {
			continue
		}
		key := s.name + "." + o.key
		if strings.HasPrefix(o.key, "/") { // a file
			key = o.key
		}
		set := TunedSetting{Aspect: aspect, Key: key, Value: o.value, Source: source}
		// A later profile's option is instead of an earlier one's.
		r.Settings = slices.DeleteFunc(r.Settings, func(t TunedSetting) bool { return t.Key == set.Key })
		r.Settings = append(r.Settings, set)
	}
}

// profileDirs is profile_dirs of tuned-main.conf, the last one first.
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
