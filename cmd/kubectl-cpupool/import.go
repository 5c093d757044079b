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

const importHelp = `Reads what places pods on CPUs today, and prints a configuration of cpupoold that does
the same. What does not carry over goes to the standard error, with the reason and what
to do instead.

It reads, by their content: PerformanceProfile, KubeletConfiguration (and KubeletConfig),
MachineConfig, CRI-O's configuration, the kubelet's file openshift-workload-pinning,
the configurations of MicroShift (kubelet:) and of k3s and RKE2 (kubelet-arg:),
CPU-Pooler's ConfigMaps, BalloonsPolicy and TopologyAwarePolicy of nri-plugins, and
Namespaces. The annotations of a Namespace allow its pods a workload type. Several files,
and several objects in a file, make one configuration, that of one node. Two objects that
disagree about the same CPUs are an error that names both. Drop-ins of the kubelet and CRI-O go over the main file in the order of their names.

Where OpenShift's documents and its implementation disagree, the implementation counts:
pods are pinned to the reserved CPUs, and the content of the pinning file does not count.
With --reading documents they are pinned to the isolated ones, or to what the file says.

The standard error states the documents that were read and skipped. Nothing is changed.

Exit codes: 0 printed, 1 it could not be made, 2 usage.`

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
		Short: "make a configuration of OpenShift's, the kubelet's, CRI-O's, CPU-Pooler's or nri-plugins'",
		Long:  importHelp,
		Args:  flagsOnly(o.check),
		RunE:  func(*cobra.Command, []string) error { return o.run(s) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "`FILE` to read, - for the standard input, or a directory of files; may be repeated")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "directories below directories too")
	flags.StringVar(&o.reading, "reading", string(migrate.Implementation), "what counts where they disagree: implementation or documents")
	flags.StringVar(&o.options.Profile, "profile", "", "`NAME` of the PerformanceProfile that is meant, where there are several")
	flags.StringVar(&o.options.KubeletConfig, "kubelet-config", "", "`NAME` of the KubeletConfig that is meant, where there are several; the one that is made of the profile if it is not said")
	flags.StringVar(&o.options.Role, "role", "", "`ROLE` of the MachineConfigs that are meant, where there are several, such as worker")
	flags.StringVar(&o.options.PoolConfig, "pool-config", "", "`KEY` of CPU-Pooler's ConfigMap that is meant, such as poolconfig-worker.yaml, where there are several")
	flags.StringVar(&o.options.NRIPolicy, "nri-policy", "", "`NAME` of the BalloonsPolicy or TopologyAwarePolicy that is meant, where there are several, such as default")
	flags.StringSliceVar(&o.options.Namespaces, "namespace", nil, "`NAMESPACE` whose pods may ask for workload types and mixed CPUs; may be repeated")
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
	return errors.Join(checkStdin(append(o.files, o.topology)...), checkDescriptions(o.topology), checkOutput(o.output))
}

type importDocument struct {
	Version       int             `json:"version"`
	Reading       migrate.Reading `json:"reading"`
	Configuration string          `json:"configuration"`
	Notes         []migrate.Note  `json:"notes"`
}

func (o *importOptions) run(s streams) error {
	var errs []error
	t, err := o.machine(s)
	if err != nil {
		errs = append(errs, err)
	}
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
	if len(errs) > 0 {
		return errors.Join(errs...)
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

// printNotes writes the notes to the standard error.
func printNotes(s streams, notes []migrate.Note) {
	for _, note := range notes {
		fmt.Fprintln(s.err, "note:", layout.Printable(note.String()))
	}
}
