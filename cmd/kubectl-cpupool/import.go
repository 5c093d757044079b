package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/document"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
	"github.com/cpupoold/cpupoold/internal/plugin/migrate"
)

const importHelp = `Reads the configuration of the components that place pods on CPUs today, and prints an
equivalent configuration of cpupoold. The standard error lists the settings without an
equivalent, each with the reason and the alternative.

The command recognizes files by their content:

- PerformanceProfile, KubeletConfig and MachineConfig of OpenShift
- KubeletConfiguration, and the kubelet's file openshift-workload-pinning
- the configuration of CRI-O
- the configurations of MicroShift (kubelet:), and of k3s and RKE2 (kubelet-arg:)
- ConfigMaps of CPU-Pooler
- BalloonsPolicy and TopologyAwarePolicy of nri-plugins
- Namespaces: their annotations allow their pods a workload type

All files and objects together make the configuration of one node. Two objects with different
values for the same CPUs are an error that names both. Drop-ins of the kubelet and of CRI-O
override the main file in the order of their names.

OpenShift's documents and its implementation disagree in one point. By default, the command
follows the implementation: pods run on the reserved CPUs, and the content of the pinning
file has no effect. With --reading documents, pods run on the isolated CPUs, or on the CPUs
in the pinning file.

The standard error states the documents that were read and skipped. The command changes
nothing.

Exit codes: 0 printed, 1 no configuration could be made, 2 usage.`

type importOptions struct {
	machineFlags
	options   migrate.Options
	reading   string
	files     []string
	recursive bool
	output    string
}

func importCommand(s streams) *cobra.Command {
	o := &importOptions{}
	cmd := &cobra.Command{
		Use:   "import -f FILE|DIR",
		Short: "Convert the CPU settings of OpenShift, kubelet, CRI-O, CPU-Pooler or nri-plugins",
		Long:  importHelp,
		Args:  flagsOnly(o.check),
		RunE:  func(*cobra.Command, []string) error { return o.run(s) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "`FILE` to read, - for the standard input, or a directory of files; may be repeated")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "also read the subdirectories")
	flags.StringVar(&o.reading, "reading", string(migrate.Implementation), "the source for OpenShift's pinning, where the two disagree: implementation or documents")
	flags.StringVar(&o.options.Profile, "profile", "", "`NAME` of the PerformanceProfile to use; required if there are several")
	flags.StringVar(&o.options.KubeletConfig, "kubelet-config", "", "`NAME` of the KubeletConfig to use if there are several (default: the one of the PerformanceProfile)")
	flags.StringVar(&o.options.Role, "role", "", "`ROLE` of the MachineConfigs to use, such as worker; required if there are several")
	flags.StringVar(&o.options.PoolConfig, "pool-config", "", "`KEY` of CPU-Pooler's ConfigMap to use, such as poolconfig-worker.yaml; required if there are several")
	flags.StringVar(&o.options.NRIPolicy, "nri-policy", "", "`NAME` of the BalloonsPolicy or TopologyAwarePolicy to use, such as default; required if there are several")
	flags.StringSliceVar(&o.options.Namespaces, "namespace", nil, "`NAMESPACE` that permits its pods workload types and mixed CPUs; may be repeated")
	o.add(cmd)
	flags.StringVarP(&o.output, "output", "o", "text", "`FORMAT`: text or json")
	return cmd
}

func (o *importOptions) check() error {
	o.options.Reading = migrate.Reading(o.reading)
	switch {
	case len(o.files) == 0:
		return errors.New("no file; name one with -f, or - for the standard input")
	case o.options.Reading != migrate.Implementation && o.options.Reading != migrate.Documents:
		return fmt.Errorf("--reading %q: no such reading; write implementation or documents", o.reading)
	}
	return errors.Join(checkStdin(append(o.files, o.topology)...), checkDescriptions("topology", o.topology), checkOutput(o.output))
}

type importDocument struct {
	Version       int             `json:"version"`
	Reading       migrate.Reading `json:"reading"`
	Configuration string          `json:"configuration"`
	Notes         []migrate.Note  `json:"notes"`
}

func (o *importOptions) run(s streams) error {
	t, err := o.machine(s)
	errs := []error{err}
	o.options.Topology = t
	var coverage manifest.Coverage
	o.options.Coverage = &coverage
	manifests, others, bad := listAll(o.files, o.recursive, &coverage)
	errs = append(errs, bad...)
	names := slices.Concat(manifests, others)
	slices.Sort(names)
	var files []migrate.File
	var skipped []migrate.Note
	for _, name := range names {
		if strings.HasSuffix(name, "/") {
			coverage.Skip("directory that only -R reads", name)
			skipped = append(skipped, migrate.Note{Source: name, Reason: "is a directory in a directory, and is not read", Remedy: "read it with -R"})
			continue
		}
		data, err := read(s.in, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		files = append(files, migrate.File{Name: name, Data: data})
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	result, err := migrate.Import(files, o.options)
	if err != nil {
		return err
	}
	result.Notes = append(skipped, result.Notes...)
	if err := reportCoverage(s, &coverage, nil, ""); err != nil {
		return err
	}
	if o.output == "json" {
		return document.Write(s.out, importDocument{1, o.options.Reading, string(result.Configuration), result.Notes})
	}
	fmt.Fprintf(s.err, "reading: %s (see --reading)\n", o.options.Reading)
	printNotes(s, result.Notes)
	_, err = s.out.Write(result.Configuration)
	return err
}

func printNotes(s streams, notes []migrate.Note) {
	for _, note := range notes {
		fmt.Fprintln(s.err, "note:", layout.Printable(note.String()))
	}
}
