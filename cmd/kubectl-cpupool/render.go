package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2/maybe"
	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/plugin/autoscale"
	"github.com/cpupoold/cpupoold/internal/plugin/migrate"
)

const renderHelp = `Converts a configuration of cpupoold to the formats of other programs:

  crio           a drop-in for /etc/crio/crio.conf.d: a table for each workload type
  pinning        /etc/kubernetes/openshift-workload-pinning
  machineconfig  a MachineConfig with both, and with the kernel arguments
  kubelet        a part of a KubeletConfiguration: reservedSystemCPUs, no static policy
  kernel         kernel arguments that keep kernel work off the guaranteed pool
  systemd        a drop-in for /etc/systemd/system.conf.d: CPUAffinity

Three formats describe the extended resources of a new node to an autoscaler. They need
--topology, and are written only if --format names them (docs/how-to/autoscale.md):

  clusterapi           a patch of a MachineDeployment: annotations for one resource
  clusterapi-capacity  a patch of the status of a machine template: all resources
  karpenter            a NodeOverlay for the instance types of --requirement

The command writes one format to the standard output. With --dir, it writes each format to a
file, and all files in one step. The standard error lists the keys that no format has.

With the tables of crio and machineconfig, CRI-O places pods instead of cpupoold. cpupoold
does not start with such tables unless otherManagers.crioWorkloads is standDown.

Exit codes: 0 written, 1 something could not be written, 2 usage.`

type renderOptions struct {
	machineFlags
	config  string
	formats []string
	dir     string
	role    string
	force   bool
	scaling autoscale.Options
}

func renderCommand(s streams) *cobra.Command {
	o := &renderOptions{}
	cmd := &cobra.Command{
		Use:   "render --config FILE {--format FORMAT | --dir DIR}",
		Short: "Convert a configuration for CRI-O, OpenShift, kubelet, kernel and systemd",
		Long:  renderHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			return flagsOnly(func() error { return o.check(cmd.Flags().Changed) })(cmd, args)
		},
		RunE: func(*cobra.Command, []string) error { return o.run(s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.config, "config", "", "configuration `FILE` of cpupoold, - for the standard input")
	flags.StringSliceVar(&o.formats, "format", nil, "`FORMAT` to write, one of the above; may be repeated with --dir (default: each format that has keys for the configuration, and needs no --format)")
	flags.StringVar(&o.dir, "dir", "", "write the files to `DIR`")
	flags.StringVar(&o.role, "role", "worker", "`ROLE` of the nodes of the MachineConfig")
	flags.BoolVar(&o.force, "force", false, "overwrite existing files")
	flags.Var(quantityFlag(&o.scaling.Memory), "memory", "memory of a machine, for clusterapi and clusterapi-capacity; 0 for none")
	flags.StringArrayVar(&o.scaling.Requirements, "requirement", nil, "`LABEL=VALUES` of the instance types of a NodeOverlay, with commas between the values; may be repeated")
	flags.StringVar(&o.scaling.Name, "overlay-name", "cpupoold", "`NAME` of the NodeOverlay")
	o.add(cmd)
	return cmd
}

// describes reports whether one of the formats is among those to write.
func (o *renderOptions) describes(formats ...autoscale.Format) bool {
	return slices.ContainsFunc(formats, func(f autoscale.Format) bool { return slices.Contains(o.formats, string(f)) })
}

// check returns an error for bad flags. given reports whether a flag is on the command line.
func (o *renderOptions) check(given func(flag string) bool) error {
	for _, name := range o.formats {
		if !slices.Contains(migrate.Formats(), migrate.Format(name)) && !slices.Contains(autoscale.Formats(), autoscale.Format(name)) {
			return fmt.Errorf("--format %q: no such format; write one of %v %v", name, migrate.Formats(), autoscale.Formats())
		}
	}
	switch {
	case len(o.scaling.Requirements) > 0 && !o.describes(autoscale.Karpenter):
		return errors.New("--requirement is for a NodeOverlay; give --format karpenter, too")
	case !o.scaling.Memory.IsZero() && !o.describes(autoscale.Annotations, autoscale.Capacity):
		return errors.New("--memory is for Cluster API; give --format clusterapi or clusterapi-capacity, too")
	case given("role") && len(o.formats) > 0 && !slices.Contains(o.formats, string(migrate.MachineConfig)):
		return errors.New("--role is for a MachineConfig; give --format machineconfig, too")
	case given("overlay-name") && !o.describes(autoscale.Karpenter):
		return errors.New("--overlay-name is for a NodeOverlay; give --format karpenter, too")
	case o.config == "":
		return errors.New("no configuration; name one with --config, or - for the standard input")
	case o.dir == "" && len(o.formats) != 1:
		return errors.New("one --format goes to the standard output; give one, or --dir to write files")
	case o.dir == "" && o.force:
		return errors.New("--force is for files; give --dir, too")
	}
	return cmp.Or(checkStdin(o.config, o.topology), checkDescriptions("topology", o.topology))
}

func (o *renderOptions) run(s streams) error {
	t, err := o.machine(s)
	if err != nil {
		return err
	}
	data, err := read(s.in, o.config)
	if err != nil {
		return err
	}
	c, err := config.Parse(data, o.config, config.Overrides{}, t)
	if err != nil {
		return err
	}
	var files []migrate.Rendered
	var formats []migrate.Format
	var errs []error
	for _, format := range migrate.Formats() {
		asked := slices.Contains(o.formats, string(format))
		if !asked && len(o.formats) > 0 {
			continue
		}
		file, err := migrate.Render(c, format, o.role, t)
		switch {
		case err == nil:
			files, formats = append(files, file), append(formats, format)
		case asked:
			errs = append(errs, err)
		default:
			fmt.Fprintln(s.err, "not written:", err)
		}
	}
	for _, format := range autoscale.Formats() {
		if !o.describes(format) {
			continue
		}
		name, data, err := autoscale.Render(c, t, format, o.scaling)
		files, errs = append(files, migrate.Rendered{Name: name, Data: data}), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(formats) > 0 {
		printNotes(s, migrate.Lost(c, formats, t))
	}
	if o.dir == "" {
		_, err := s.out.Write(files[0].Data)
		return err
	}
	return o.write(s, files)
}

// write writes all files, or none if one of them is there.
func (o *renderOptions) write(s streams, files []migrate.Rendered) error {
	if len(files) == 0 {
		return errors.New("none of the formats has a key for this configuration; add partitions or guaranteed.cpus")
	}
	var errs []error
	for _, file := range files {
		path := filepath.Join(o.dir, file.Name)
		if _, err := os.Lstat(path); err == nil && !o.force {
			errs = append(errs, fmt.Errorf("%s exists; move it away, or write over it with --force", path))
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil { //nolint:gosec // configuration is public
		return err
	}
	for _, file := range files {
		path := filepath.Join(o.dir, file.Name)
		if err := maybe.WriteFile(path, file.Data, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "%s: written\n", path)
	}
	return nil
}
