package config

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Load reads the file at path over the defaults and applies the overrides over
// it. An empty path means no file.
//
// With a topology, the pools are also checked against it, so that all problems are
// reported at once; a nil topology leaves that to Resolve. If the file has other
// problems, pools that overlap on every machine are reported with them. The error joins
// one *Problem for each problem, or is the reason why the file cannot be read.
func Load(path string, o Overrides, t *topology.Topology) (*Config, error) {
	if path == "" {
		return build(nil, origins{file: "defaults"}, o, t)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return build(data, origins{file: path}, o, t)
}

// Parse is Load of data that was read before; name stands for the file in
// errors.
func Parse(data []byte, name string, o Overrides, t *topology.Topology) (*Config, error) {
	if data == nil {
		data = []byte{}
	}
	return build(data, origins{file: name}, o, t)
}

// build decodes data, if there is any, and then the overrides.
func build(data []byte, from origins, o Overrides, t *topology.Topology) (*Config, error) {
	from.lines, from.flags = map[string]int{}, map[string]string{}
	d := &decoder{origins: from}
	c := Default()
	fields := d.fields(&c)
	if data != nil {
		d.decode(data, fields)
	}
	for _, s := range o.settings {
		d.origins.flags[s.key] = s.flag
		for _, f := range fields {
			if f.name == s.key {
				f.decode(f.name, &yaml.Node{Kind: yaml.ScalarNode, Value: s.value})
			}
		}
	}
	c.origins = d.origins
	if !d.origins.has("podResourcesSocket") {
		c.PodResourcesSocket = ""
		if c.HasRuntime() {
			c.PodResourcesSocket = podResources(c.KubeletStateDir)
		}
	}
	if !d.origins.has("nriSocket") && !c.HasRuntime() {
		c.NRISocket = ""
	}
	d.checkStaticKubelet(&c)
	if t == nil && len(d.problems) > 0 {
		// A machine with all CPUs that a configuration can name: problems of the pools that every
		// machine has are reported with the others.
		all := cpuset.Range(0, cpuset.MaxCPUs-1)
		t = &topology.Topology{Present: all, Online: all}
	}
	if t != nil {
		d.resolve(&c, t)
	}
	if len(d.problems) > 0 {
		slices.SortStableFunc(d.problems, byLine)
		return nil, errors.Join(d.problems...)
	}
	return &c, nil
}

// resolve adds the problems of the pools on this machine. It skips keys that
// have a problem already: a list that could not be parsed looks empty.
func (d *decoder) resolve(c *Config, t *topology.Topology) {
	_, err := c.Resolve(t)
	if err == nil {
		return
	}
	bad := map[string]bool{}
	for _, e := range d.problems {
		if p, ok := errors.AsType[*Problem](e); ok && !p.known {
			bad[p.Key] = true
		}
	}
	for _, e := range Flatten(err) {
		p, ok := errors.AsType[*Problem](e)
		if !ok || !within(p.Key, bad) {
			d.problems = append(d.problems, e)
		}
	}
}

// within reports whether key, or a key around it, is in the set.
func within(key string, set map[string]bool) bool {
	for ; key != ""; key = parentKey(key) {
		if set[key] {
			return true
		}
	}
	return false
}

// byLine orders problems by their lines in the file. Problems of flags are last.
func byLine(a, b error) int {
	line := func(err error) int {
		p, ok := errors.AsType[*Problem](err)
		if !ok || p.flag {
			return math.MaxInt
		}
		return p.Line
	}
	return cmp.Compare(line(a), line(b))
}

// Flatten returns the errors that errors.Join has joined.
func Flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, Flatten(e)...)
	}
	return all
}

// Overrides holds the settings of flags. They override the file, also when the file is read
// again. The zero value overrides nothing.
type Overrides struct {
	settings []setting
}

type setting struct{ flag, key, value string }

// AddFlags defines flags for settings that are often changed without the file. Load
// reports a bad value together with the problems of the file.
func (o *Overrides) AddFlags(flags *pflag.FlagSet) {
	for _, f := range []struct{ flag, key, usage string }{
		{"container-runtime-endpoint", "containerRuntimeEndpoint", "CRI `socket` (default: look for it)"},
		{"listen-address", "listenAddress", "`host:port` of /metrics, /healthz and /readyz"},
		{"log-level", "logLevel", "`level` of the log: debug, info, warn or error"},
		{"log-format", "logFormat", "`format` of the log: text or json"},
	} {
		flags.Func(f.flag, f.usage, func(value string) error {
			o.settings = append(o.settings, setting{f.flag, f.key, value})
			return nil
		})
	}
}

// settle is the time without changes after which a file is read: editors
// write, rename and chmod, and a ConfigMap's update is four renames.
const settle = 100 * time.Millisecond

// Watch calls wake whenever the content of the file at path has changed, and
// once when the watch stands, so that a change since Load is not missed. It
// returns nil when ctx is done, and an error when the watch is lost.
//
// Watch watches directories, because editors and the kubelet replace files. It watches the
// directory of the file, and of each symbolic link on the path. (A ConfigMap's file is a link
// into ..data, which is itself a link.)
func Watch(ctx context.Context, path string, wake func()) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch configuration: %w", err)
	}
	defer w.Close()
	if err := follow(w, path); err != nil {
		return err
	}
	last := digest(path)
	wake()

	quiet := time.NewTimer(settle)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-w.Events:
			if !ok {
				return errors.New("watch configuration: the watch was closed")
			}
			quiet.Reset(settle)
		case err := <-w.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("watch configuration: %w", err)
			}
			quiet.Reset(settle) // events were dropped: read the file
		case <-quiet.C:
			if err := follow(w, path); err != nil {
				return err
			}
			if now := digest(path); now != last {
				last = now
				wake()
			}
		}
	}
}

// follow watches the directories of path and its links, and no others.
func follow(w *fsnotify.Watcher, path string) error {
	wanted := map[string]bool{}
	const longest = 40 // links that the kernel follows, path_resolution(7)
	for range longest {
		wanted[filepath.Dir(path)] = true
		target, err := os.Readlink(path)
		if err != nil {
			break // not a link, or missing at the moment
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	for _, dir := range w.WatchList() {
		if !wanted[dir] {
			// The kernel has ended the watch of a removed directory.
			if err := w.Remove(dir); err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
				return fmt.Errorf("stop watching %s: %w", dir, err)
			}
		}
	}
	for dir := range wanted {
		if err := w.Add(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("watch %s: %w", dir, err)
		}
	}
	if len(w.WatchList()) == 0 {
		return fmt.Errorf("watch configuration: directory %s is gone; restore it and restart the daemon", filepath.Dir(path))
	}
	return nil
}

// digest identifies the content of a file. A file that cannot be read has a separate digest,
// so that its loss is noticed.
func digest(path string) [sha256.Size]byte {
	data, err := os.ReadFile(path)
	if err != nil {
		return sha256.Sum256([]byte("unreadable: " + err.Error()))
	}
	return sha256.Sum256(data)
}
