package managers

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/BurntSushi/toml"

	"github.com/cpupoold/cpupoold/internal/node/procroot"
)

// Paths of the configuration of CRI-O (crio(8), --config and --config-dir).
const (
	crioConfig  = "etc/crio/crio.conf"
	crioDropIns = "etc/crio/crio.conf.d"
)

// CRIO is the part of CRI-O's configuration that sets CPUs.
type CRIO struct {
	Workloads []Workload // by name
	Handlers  []Handler  // by name
	// DefaultRuntime is the handler of pods without one; empty for CRI-O's built-in default.
	DefaultRuntime string
	InfraCPUSet    Setting // infra_ctr_cpuset
	// Unreadable holds the files that exist and cannot be parsed.
	Unreadable []FileError
}

// Workload is one table [crio.runtime.workloads.NAME].
type Workload struct {
	Name, Source string
	// Activation is activation_annotation: pods with this key belong to the workload.
	Activation string
	// Pins is true if the table has resources. Only then CRI-O sets the CPUs and shares of
	// pods, from the table or from the annotations of the pod.
	Pins bool
	// Allowed is allowed_annotations.
	Allowed []string
}

// Handler is one table [crio.runtime.runtimes.NAME].
type Handler struct {
	Name, Source string
	// Allowed is allowed_annotations. CRI-O drops other annotations.
	Allowed []string
}

// Setting is a value and its file. Both are empty if no file sets the value.
type Setting struct{ Value, Source string }

// FileError is a file that exists and cannot be parsed.
type FileError struct {
	Name string
	Err  error
}

// ReadCRIO reads the main file and then all files of the drop-in directory in lexical order,
// as CRI-O does. A later table replaces an earlier one with the same name. Missing files are
// no error.
func ReadCRIO(root fs.FS) CRIO {
	var c CRIO
	files := []string{crioConfig}
	err := fs.WalkDir(root, crioDropIns, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, name)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Unreadable = append(c.Unreadable, FileError{"/" + crioDropIns, err})
	}
	workloads, handlers := make(map[string]Workload), make(map[string]Handler)
	for _, name := range files {
		b, err := procroot.ReadFile(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var config crioFile
		if err == nil {
			if err = toml.Unmarshal(b, &config); err != nil {
				err = fmt.Errorf("parse CRI-O configuration: %w", err)
			}
		}
		if err != nil {
			c.Unreadable = append(c.Unreadable, FileError{"/" + name, err})
			continue
		}
		c.overlay(&config.Crio.Runtime, "/"+name, workloads, handlers)
	}
	for _, name := range slices.Sorted(maps.Keys(workloads)) {
		c.Workloads = append(c.Workloads, workloads[name])
	}
	for _, name := range slices.Sorted(maps.Keys(handlers)) {
		c.Handlers = append(c.Handlers, handlers[name])
	}
	return c
}

func (c *CRIO) overlay(r *crioRuntime, source string, workloads map[string]Workload, handlers map[string]Handler) {
	for name, w := range r.Workloads {
		workloads[name] = Workload{Name: name, Source: source, Activation: w.ActivationAnnotation, Pins: w.Resources != nil, Allowed: w.AllowedAnnotations}
	}
	for name, h := range r.Runtimes {
		handlers[name] = Handler{Name: name, Source: source, Allowed: h.AllowedAnnotations}
	}
	if r.DefaultRuntime != nil {
		c.DefaultRuntime = *r.DefaultRuntime
	}
	if r.InfraCtrCPUSet != nil {
		c.InfraCPUSet = Setting{*r.InfraCtrCPUSet, source}
	}
}

// crioFile holds the used keys of crio.conf(5); nil means absent.
type crioFile struct {
	Crio struct {
		Runtime crioRuntime `toml:"runtime"`
	} `toml:"crio"`
}

type crioRuntime struct {
	DefaultRuntime *string `toml:"default_runtime"`
	InfraCtrCPUSet *string `toml:"infra_ctr_cpuset"`
	Workloads      map[string]struct {
		ActivationAnnotation string         `toml:"activation_annotation"`
		AllowedAnnotations   []string       `toml:"allowed_annotations"`
		Resources            map[string]any `toml:"resources"`
	} `toml:"workloads"`
	Runtimes map[string]struct {
		AllowedAnnotations []string `toml:"allowed_annotations"`
	} `toml:"runtimes"`
}
