// Command cpupool-dra is the kubelet's plugin for ResourceClaims of CPUs. See `cpupool-dra help`.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/cpupoold/cpupoold/internal/claimdriver"
	"github.com/cpupoold/cpupoold/internal/claimdriver/slices"
	"github.com/cpupoold/cpupoold/internal/memorylimit"
	"github.com/cpupoold/cpupoold/internal/usage"
	"github.com/cpupoold/cpupoold/internal/version"
)

const help = `Prepares ResourceClaims of CPUs for the kubelet, through the daemon cpupoold.

It runs on each node, in a pod of its own. It publishes the CPUs of
guaranteed.claims as devices, and the daemon chooses the CPUs of each claim.
It has no state. See docs/explanation/resource-claims.md.`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills
	os.Exit(execute(ctx, os.Stdout, os.Stderr, os.Args[1:]))
}

type flags struct {
	options             claimdriver.Options
	kubeconfig, listen  string
	logLevel, logFormat string
	numaAttributes      []string
}

func execute(ctx context.Context, out, errs io.Writer, args []string) int {
	return usage.Run(ctx, command(errs), out, errs, args)
}

func command(errs io.Writer) *cobra.Command {
	var f flags
	root := &cobra.Command{
		Use:     "cpupool-dra",
		Short:   "Prepare ResourceClaims of CPUs for the kubelet",
		Long:    help,
		Version: version.Read().String(),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd, errs) },
	}
	fs, o := root.Flags(), &f.options
	fs.StringVar(&o.Node, "node-name", "", "`NAME` of the Node (default: NODE_NAME of the environment)")
	fs.StringVar(&o.PodUID, "pod-uid", "", "`UID` of the program's pod, for updates without a gap (default: POD_UID of the environment; empty: one instance at a time)")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `FILE` (default: the service account of the pod)")
	fs.StringVar(&o.RunDir, "run-dir", "/run/cpupoold", "`DIRECTORY` with the daemon's socket, runDir of its configuration")
	fs.StringVar(&o.KubeletDir, "kubelet-dir", "/var/lib/kubelet", "`DIRECTORY` of the kubelet")
	fs.StringVar(&o.CDIDir, "cdi-dir", "/var/run/cdi", "`DIRECTORY` in which the runtime finds CDI files")
	fs.StringSliceVar(&f.numaAttributes, "numa-attribute", nil, "also publish the NUMA node of CPUs as attribute `NAME`, such as dra.net/numaNode; may be repeated")
	fs.TextVar(&o.Accounting, "accounting", slices.Auto, "`MODE` in which the cluster counts CPUs of claims: mapped (as cpu of the pod, with the feature gate DRANodeAllocatableResources), reserved (the kubelet reserves the CPUs of the list) or auto (mapped where API server and kubelet support it)")
	fs.StringVar(&f.listen, "listen", "127.0.0.1:9091", "`ADDRESS` for /metrics, /healthz and /readyz")
	fs.StringVar(&f.logLevel, "log-level", "info", "`LEVEL` of the log: debug, info, warn or error")
	fs.StringVar(&f.logFormat, "log-format", "text", "`FORMAT` of the log: text or json")
	return root
}

func (f *flags) run(cmd *cobra.Command, errs io.Writer) error {
	ctx, o := cmd.Context(), &f.options
	if err := f.check(cmd); err != nil {
		return usage.New(cmd, err)
	}
	log, err := logger(f.logLevel, f.logFormat, errs)
	if err != nil {
		return usage.New(cmd, err)
	}
	klog.SetSlogLogger(log)
	memorylimit.Set(log, 0.9)
	way, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	way.QPS, way.Burst = 20, 40 // after a start, the status of each claim is read
	if o.Client, err = kubernetes.NewForConfig(way); err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	if o.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", f.listen); err != nil {
		return fmt.Errorf("listen for metrics: %w", err)
	}
	o.Log = log
	log.Info("start", "version", version.Read().String(), "node", o.Node)
	return claimdriver.Run(klog.NewContext(ctx, klog.Background()), *o)
}

// check completes the flags from the environment, and checks them.
func (f *flags) check(cmd *cobra.Command) error {
	o := &f.options
	if !cmd.Flags().Changed("node-name") {
		o.Node = os.Getenv("NODE_NAME")
	}
	if !cmd.Flags().Changed("pod-uid") {
		o.PodUID = os.Getenv("POD_UID")
	}
	if errs := validation.IsDNS1123Subdomain(o.Node); len(errs) > 0 {
		return fmt.Errorf("node name %q: %s; set --node-name or NODE_NAME", o.Node, strings.Join(errs, "; "))
	}
	if o.PodUID != "" && len(validation.IsDNS1123Label(o.PodUID)) > 0 { // it is in names of sockets
		return fmt.Errorf("pod UID %q: want metadata.uid of the pod; set --pod-uid or POD_UID", o.PodUID)
	}
	for _, name := range f.numaAttributes {
		domain, id, ok := strings.Cut(name, "/")
		if !ok || len(validation.IsDNS1123Subdomain(domain)) > 0 || len(validation.IsCIdentifier(id)) > 0 {
			return fmt.Errorf("--numa-attribute %q is no name of an attribute; write a domain and an identifier, such as dra.net/numaNode", name)
		}
		if len(domain) > resourcev1.DeviceMaxDomainLength || len(id) > resourcev1.DeviceMaxIDLength { // the API server would refuse each slice
			return fmt.Errorf("--numa-attribute %q: a domain has at most %d bytes, and an identifier %d; shorten it", name, resourcev1.DeviceMaxDomainLength, resourcev1.DeviceMaxIDLength)
		}
		o.NUMAAttributes = append(o.NUMAAttributes, resourcev1.QualifiedName(name))
	}
	return nil
}

func logger(level, format string, w io.Writer) (*slog.Logger, error) {
	o := new(slog.HandlerOptions)
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	o.Level = l
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("--log-format %q: want text or json", format)
}
