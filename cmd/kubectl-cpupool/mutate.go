package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/plugin/claims"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
	"github.com/cpupoold/cpupoold/internal/spelling"
	"github.com/cpupoold/cpupoold/internal/usage"
	"github.com/cpupoold/cpupoold/internal/verdict"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

const mutateHelp = `Prints manifests with the changes that the webhook makes to Pods, and to the templates of
Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs. Other objects and
all comments stay as they are.

Only the cluster knows the workload types that a namespace allows. The command assumes that
each namespace allows them. The standard error contains the warnings, and the kinds of the
objects that were read or skipped. Files without a readable object are an error.

The ResourceClaims, templates and DeviceClasses in the files state which containers run on CPUs
of claims: the webhook adds no resource of a pool to them. The DeviceClass of a claim can be
absent if its name or the requested capacity shows that the claim is for CPUs.

--in-place changes the files instead, each atomically, and keeps their mode and owner. It
writes the original of FILE to .FILE.cpupool-backup in the same directory. The kubelet does
not read this file as a static pod. --restore puts the backups back. A file that cannot be
changed is an error; the command changes the others.

--kubeadm-patches leaves the static pods of kubeadm unchanged, and writes patches for them.
kubeadm applies the patches each time it writes the static pods, so an upgrade keeps them:
set patches.directory in its configuration, or its flag --patches.

--diff prints the changes that any of these would make.`

type mutateOptions struct {
	admissionFlags
	files     []string
	target    string
	memory    resource.Quantity // 0: leave requests for memory alone
	backupDir string
	patchDir  string
	recursive bool
	claims    claims.Objects // of all files
	diff      bool
	change    bool
	putBack   bool
}

// admissionFlags are the switches of the webhook, for commands that do what it does.
type admissionFlags struct {
	types    []string
	settings admission.Settings
}

func (a *admissionFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&a.types, "type", []string{"management"}, "enabled workload `TYPE`; may be repeated")
	flags.BoolVar(&a.settings.SharedCPUs, "shared-cpus", false, "enable the resource of the shared pool, as in the webhook")
	flags.BoolVar(&a.settings.GuaranteedCPUs, "guaranteed-cpus", false, "enable the resource of the guaranteed pool, as in the webhook")
	addExceptions(flags, &a.settings.Exceptions)
	addPodLevel(flags, &a.settings.PodLevel)
	flags.BoolVar(&a.settings.PodLevelOverride, "pod-level-override", false, "pods may choose the mode by the annotation cpupoold.io/pod-level")
	addDefaults(flags, &a.settings.Defaults)
	addNames(flags, &a.settings.Names, "annotations and types")
}

// switchOn puts the types into the settings.
func (a *admissionFlags) switchOn() {
	a.settings.Types = map[string]bool{}
	for _, typ := range a.types {
		a.settings.Types[typ] = true
	}
}

func mutateCommand(s streams) *cobra.Command {
	o := &mutateOptions{}
	cmd := &cobra.Command{
		Use:   "mutate -f FILE|DIR",
		Short: "Print manifests with the changes of the webhook, or change the files",
		Long:  mutateHelp,
		Args:  flagsOnly(o.check),
		RunE:  func(*cobra.Command, []string) error { return o.run(s) },
	}
	o.add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "`FILE` of manifests, - for the standard input, or a directory of files; may be repeated")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "also read the subdirectories")
	flags.StringVar(&o.target, "target", "", "add this workload `TYPE` to pods without one")
	flags.Var(quantityFlag(&o.memory), "request-memory", "memory request to add to containers without one, in pods of a workload type; a pod without CPU and memory requests is BestEffort")
	flags.BoolVar(&o.diff, "diff", false, "print the changes instead")
	flags.BoolVar(&o.change, "in-place", false, "change the files, and keep a backup of each")
	flags.BoolVar(&o.putBack, "restore", false, "restore the files from the backups of --in-place")
	flags.StringVar(&o.patchDir, "kubeadm-patches", "", "write patches for kubeadm to `DIR`; change no manifests")
	flags.StringVar(&o.backupDir, "backup-dir", "", "`DIR` of the backups (default: the directory of each file)")
	return cmd
}

func (o *mutateOptions) check() error {
	files := o.change || o.putBack
	switch {
	case files && slices.Contains(o.files, "-"):
		return errors.New("-f -: the standard input is no file that could be changed; name one")
	case len(o.files) == 0:
		return errors.New("no file; name one with -f, or - for the standard input")
	case o.change && o.putBack:
		return errors.New("--in-place and --restore: give one of them")
	case o.patchDir != "" && files:
		return errors.New("--kubeadm-patches changes no files; leave --in-place and --restore out")
	case o.backupDir != "" && !files:
		return errors.New("--backup-dir without --in-place or --restore: add one of them")
	case o.backupDir != "" && o.recursive:
		return errors.New("--backup-dir holds the files of one directory; leave --recursive out, or --backup-dir")
	}
	return nil
}

func (o *mutateOptions) run(s streams) error {
	if o.target != "" {
		o.types = append(o.types, o.target)
	}
	o.switchOn()
	o.settings.Claims = &o.claims
	switch {
	case o.change:
		return o.inPlace(s)
	case o.putBack:
		return o.restore(s)
	case o.patchDir != "":
		return o.patches(s)
	}
	return o.print(s)
}

// print writes all files to the standard output, or nothing if one of them is bad. The differences
// of the other files do not depend on a bad file, so that --diff prints them.
func (o *mutateOptions) print(s streams) error {
	var out bytes.Buffer
	var coverage manifest.Coverage
	files, errs := listFiles(o.files, o.recursive, &coverage)
	texts := make([][]byte, len(files)) // nil: unreadable
	for i, file := range files {
		data, err := read(s.in, file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		o.cover(&coverage, file, data)
		texts[i] = data
	}
	for i, file := range files {
		data := texts[i]
		if data == nil {
			continue
		}
		result, err := manifest.Rewrite(data, o.mutate)
		o.note(s, file, result.Notes)
		if err != nil {
			errs = append(errs, inFile(file, err, ""))
			continue
		}
		if o.diff {
			out.Write(diff.Diff(file, result.Before, file+" (mutated)", result.After))
			continue
		}
		if out.Len() > 0 && len(result.After) > 0 && !bytes.HasPrefix(result.After, []byte("---")) {
			out.WriteString("---\n")
		}
		out.Write(result.After)
		if len(result.After) > 0 && !bytes.HasSuffix(result.After, []byte("\n")) {
			out.WriteByte('\n')
		}
	}
	errs = append(errs, reportCoverage(s, &coverage, errs, changeable))
	if err := errors.Join(errs...); err != nil && !o.diff {
		return err
	}
	_, err := s.out.Write(out.Bytes())
	return errors.Join(append(errs, err)...)
}

// changeable are the objects that mutate reads.
const changeable = "Pods or workloads"

// cover records the objects of a file, and keeps its claims.
func (o *mutateOptions) cover(c *manifest.Coverage, file string, data []byte) {
	objects, errs := manifest.Objects(data)
	for i := range objects {
		if claims.Reads(&objects[i]) {
			_ = o.claims.Add(&objects[i], metav1.NamespaceDefault) // lint reports an error; the claim stays unknown
		}
	}
	c.Add(file, objects, errs, func(o *manifest.Object) bool { return o.Pod != nil && !o.Shaped || claims.Reads(o) })
}

// inFile adds the name of a file to each of joined errors, if any, and an end to each sentence.
func inFile(file string, err error, end string) error {
	var all []error
	for _, one := range usage.Each(err) {
		all = append(all, fmt.Errorf("%s: %w%s", file, one, end))
	}
	return errors.Join(all...)
}

func (o *mutateOptions) note(s streams, file string, notes []string) {
	for _, note := range notes {
		fmt.Fprintf(s.err, "warning: %s: %s\n", file, layout.Printable(note))
	}
}

// mutate applies the flags to a pod, and then the webhook's rules. If a pod without a
// request may not have the type of --target, the flag is ignored for it. Otherwise its file
// would change only for a warning, and the kubelet would restart a static pod.
func (o *mutateOptions) mutate(pod *corev1.Pod) (*corev1.Pod, []string, error) {
	from := admission.Origin{Manifest: true}
	result, warnings, err := o.settings.Mutate(o.asking(pod), from)
	notes := o.misspelt(pod)
	for _, w := range warnings {
		note := w.String()
		switch w.Reason { // the flags are the configuration here
		case admission.TypeOff:
			note = fmt.Sprintf("workload type %q is not switched on; give --type %[1]s, or correct the annotation", w.Subject)
			if meant := spelling.Near(w.Subject, o.types); meant != "" {
				note += "; did you mean " + meant + "?"
			}
		case admission.ResourceOff:
			note = fmt.Sprintf("resource %q was removed: it is not switched on; give --shared-cpus or --guaranteed-cpus, or remove the request", w.Subject)
		case admission.ResourceExcepted:
			note = fmt.Sprintf("resource %q was removed: --except-namespace or --except-nodes excepts the pod; remove the request", w.Subject)
		case admission.ClaimUnknown:
			note = fmt.Sprintf("resource claim %q is not in the files, so the cpu requests of containers with the claim count; give its template or claim with -f", w.Subject)
		}
		notes = append(notes, note+" ("+string(w.Reason)+")")
	}
	if _, asks, targetErr := o.settings.Names.TargetType(pod.Annotations); err != nil || asks || targetErr != nil || o.target == "" {
		return result, notes, err
	}
	if _, has, _ := o.settings.Names.TargetType(result.Annotations); !has {
		result, _, err = o.settings.Mutate(pod, from)
	}
	return result, notes, err
}

// misspelt returns a note for each annotation that no program reads, and that is close to another.
func (o *mutateOptions) misspelt(pod *corev1.Pod) (notes []string) {
	p := verdict.Pod{Names: o.settings.Names, Types: o.types}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if meant := p.Meant(key); meant != "" {
			notes = append(notes, fmt.Sprintf("annotation %s: did you mean %s?", key, meant))
		}
	}
	return notes
}

// asking returns the pod with the annotation of --target, and the memory of
// --request-memory. The pod that it is given stays as it is.
func (o *mutateOptions) asking(pod *corev1.Pod) *corev1.Pod {
	_, asks, _ := o.settings.Names.TargetType(pod.Annotations)
	if !asks && o.target == "" {
		return pod
	}
	pod = pod.DeepCopy()
	if !asks {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, o.settings.Names.TargetKey(o.target), workload.TargetValue)
	}
	if o.memory.IsZero() {
		return pod
	}
	for i := range pod.Spec.Containers {
		r := &pod.Spec.Containers[i].Resources
		_, limits := r.Limits[corev1.ResourceMemory] // which is a request too
		if _, requests := r.Requests[corev1.ResourceMemory]; limits || requests {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[corev1.ResourceMemory] = o.memory
	}
	return pod
}

// Limits of files in bytes, so that a device as the file does not use all memory. The list of
// the pods of a cluster has about 10 KiB for each pod.
const (
	readLimit    = 64 << 20
	clusterLimit = 512 << 20
)

func read(stdin io.Reader, file string) ([]byte, error) { return readUpTo(stdin, file, readLimit) }

func readUpTo(stdin io.Reader, file string, limit int64) ([]byte, error) {
	from := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	data, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: is longer than %d bytes; give a part of it", file, limit)
	}
	return data, err
}
