package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/BurntSushi/toml"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Where CRI-O reads its configuration (crio(8), --config and --config-dir).
const (
	crioConfig  = "/etc/crio/crio.conf"
	crioDropIns = "/etc/crio/crio.conf.d"
)

// crioFacts is the part of CRI-O's configuration that sets CPUs.
type crioFacts struct {
	workloads   []crioWorkload // by name
	infraCPUSet setting
	unreadable  []fileError
}

// crioWorkload is one table [crio.runtime.workloads.NAME].
type crioWorkload struct {
	name, source string
	activation   string // activation_annotation
	// pins says that the table has resources: only then does CRI-O set the CPUs
	// and shares of pods, from the table or from the pod's annotations.
	pins bool
}

// readCRIO reads the main file and then every file of the drop-in directory in
// lexical order, whatever its name, as CRI-O does. A later table of the same name
// replaces the earlier one.
func readCRIO(root fs.FS) crioFacts {
	var c crioFacts
	files := []string{crioConfig}
	err := fs.WalkDir(root, relative(crioDropIns), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, "/"+name)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.unreadable = append(c.unreadable, fileError{crioDropIns, err})
	}
	workloads := make(map[string]crioWorkload)
	for _, file := range files {
		b, err := readFile(root, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var config crioFile
		if err == nil {
			config, err = parseCRIOConfig(b)
		}
		if err != nil {
			c.unreadable = append(c.unreadable, fileError{file, err})
			continue
		}
		for name, w := range config.Crio.Runtime.Workloads {
			workloads[name] = crioWorkload{name, file, w.ActivationAnnotation, w.Resources != nil}
		}
		if set := config.Crio.Runtime.InfraCtrCPUSet; set != nil {
			c.infraCPUSet = setting{*set, file, "crio.runtime.infra_ctr_cpuset"}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(workloads)) {
		c.workloads = append(c.workloads, workloads[name])
	}
	return c
}

// crioFile holds the keys of crio.conf(5) that matter here.
type crioFile struct {
	Crio struct {
		Runtime struct {
			InfraCtrCPUSet *string `toml:"infra_ctr_cpuset"`
			Workloads      map[string]struct {
				ActivationAnnotation string         `toml:"activation_annotation"`
				Resources            map[string]any `toml:"resources"`
			} `toml:"workloads"`
		} `toml:"runtime"`
	} `toml:"crio"`
}

// parseCRIOConfig reads crio.conf or a drop-in and looks at nothing but the keys
// of crioFile.
func parseCRIOConfig(b []byte) (crioFile, error) {
	var config crioFile
	if err := toml.Unmarshal(b, &config); err != nil {
		return crioFile{}, fmt.Errorf("parse CRI-O configuration: %w", err)
	}
	return config, nil
}

// checkWorkloads: CRI-O's workloads do what cpupoold's management pool does,
// once, at a container's creation. Both together give each container two owners.
func checkWorkloads(e *evidence) []Finding {
	names := workload.Names{Domain: e.config.AnnotationDomain}
	var findings []Finding
	for _, w := range e.crio.workloads {
		ours := ""
		for _, p := range e.config.Pools.Partitions {
			if w.activation == names.TargetKey(p.Type) {
				ours = p.Type
			}
		}
		f := Finding{
			Severity: Refuse,
			Subject:  fmt.Sprintf("%s: crio.runtime.workloads.%s", w.source, w.name),
			Remedy:   "remove the table and restart CRI-O",
		}
		switch {
		case ours != "":
			f.Found = fmt.Sprintf("is activated by the annotation %s, which is cpupoold's for workload type %s: CRI-O would place the same pods", w.activation, ours)
		case w.pins:
			f.Found = fmt.Sprintf("sets CPUs and shares of pods with the annotation %s: cpupoold would move them", w.activation)
		default:
			continue
		}
		findings = append(findings, f)
	}
	return findings
}

func checkInfraCPUSet(e *evidence) []Finding {
	s := e.crio.infraCPUSet
	if s.value == "" {
		return nil
	}
	return []Finding{{
		Severity: Warning,
		Subject:  s.source,
		Found:    fmt.Sprintf("%s is %q: CRI-O pins pause containers there, and cpupoold moves them to their pod's pool", s.key, s.value),
		Remedy:   "remove the key and restart CRI-O",
	}}
}

func checkCRIOConfig(e *evidence) []Finding {
	var findings []Finding
	for _, f := range e.crio.unreadable {
		findings = append(findings, Finding{
			Severity: Warning,
			Subject:  f.name,
			Found:    fmt.Sprintf("cannot be understood, so it is not certain that CRI-O leaves CPUs alone: %s", cause(f.err)),
			Remedy:   "repair the file: CRI-O will not start with it either",
		})
	}
	return findings
}
