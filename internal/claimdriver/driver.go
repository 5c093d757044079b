package claimdriver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	metadatav1beta1 "k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/cpupoold/cpupoold/internal/claimdriver/cdifiles"
	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/dra"
)

// Options configures Run.
type Options struct {
	// Node is the name of the Node, and of its pool of devices.
	Node string
	// PodUID is the UID of the driver's pod. With it, two instances can run during an update. It can be
	// empty.
	PodUID string
	// RunDir has the daemon's socket. KubeletDir is the directory of the kubelet. The runtime looks for
	// CDI files in CDIDir.
	RunDir, KubeletDir, CDIDir string
	// NUMAAttributes are other names of the attribute with the NUMA node.
	NUMAAttributes []resourcev1.QualifiedName
	Client         kubernetes.Interface
	// Listener is for metrics and probes. Run closes it.
	Listener net.Listener
	Log      *slog.Logger
}

// driver implements kubeletplugin.DRAPlugin.
type driver struct {
	node           string
	numaAttributes []resourcev1.QualifiedName
	daemon         *control.Client
	client         kubernetes.Interface
	files          cdifiles.Dir
	metadata       string // directory of the metadata of claims
	watch          *watcher
	locks          keyLocks
	count          *counters
	log            *slog.Logger
	fail           context.CancelCauseFunc
}

// Run serves the kubelet until ctx ends.
func Run(ctx context.Context, o Options) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	data := filepath.Join(o.KubeletDir, "plugins", dra.Driver)
	daemon := control.NewClient(control.Socket(o.RunDir))
	defer daemon.Close()
	d := &driver{
		node: o.Node, numaAttributes: o.NUMAAttributes, daemon: daemon, client: o.Client, files: cdifiles.Dir(o.CDIDir),
		metadata: filepath.Join(data, "dra-device-metadata"), watch: newWatcher(daemon, o.Log), log: o.Log, fail: fail,
	}
	d.count = newCounters(d.watch)
	if err := os.MkdirAll(data, 0o750); err != nil {
		return errors.Join(fmt.Errorf("make the directory of the plugin: %w", err), o.Listener.Close())
	}
	// Calls are not serialised over all claims: a claim that cannot be decided must not delay others. The
	// driver serialises the calls for each claim.
	helper, err := kubeletplugin.Start(ctx, d,
		kubeletplugin.DriverName(dra.Driver),
		kubeletplugin.NodeName(o.Node),
		kubeletplugin.KubeClient(o.Client),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(o.KubeletDir, "plugins_registry")),
		kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.RollingUpdate(types.UID(o.PodUID)),
		kubeletplugin.HealthService(true),
		kubeletplugin.EnableDeviceMetadata(true, []schema.GroupVersion{metadatav1beta1.SchemeGroupVersion}),
		kubeletplugin.CDIDirectory(o.CDIDir),
		kubeletplugin.Serialize(false),
		kubeletplugin.GRPCInterceptor(d.count.noteRegistration),
		kubeletplugin.GRPCVerbosity(4),
	)
	if err != nil {
		return errors.Join(fmt.Errorf("start the kubelet's plugin: %w", err), o.Listener.Close())
	}
	defer helper.Stop()
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return d.serve(ctx, o.Listener) })
	for _, loop := range []func(context.Context){d.watch.run, d.cleanUp, d.writeStatuses, func(ctx context.Context) { d.publish(ctx, helper) }} {
		all.Go(func() error { loop(ctx); return nil })
	}
	err = all.Wait()
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

// HandleError logs an error of the library. A fatal one ends Run, for example if a socket cannot be
// served.
func (d *driver) HandleError(_ context.Context, err error, msg string) {
	d.count.failed("plugin")
	if errors.Is(err, kubeletplugin.ErrRecoverable) || errors.Is(err, context.Canceled) {
		d.log.Warn(msg, "error", err)
		return
	}
	d.fail(fmt.Errorf("%s: %w", msg, err))
}
