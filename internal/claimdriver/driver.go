package claimdriver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	metadatav1beta1 "k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/cpupoold/cpupoold/internal/claimdriver/cdifiles"
	"github.com/cpupoold/cpupoold/internal/claimdriver/slices"
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
	Accounting     slices.Accounting
	Client         kubernetes.Interface
	// Listener is for metrics and probes. Run closes it.
	Listener net.Listener
	Log      *slog.Logger
}

// driver implements kubeletplugin.DRAPlugin.
type driver struct {
	Options
	daemon   *control.Client
	files    cdifiles.Dir
	metadata string // directory of the metadata of claims
	watch    *watcher
	slices   *slices.Publisher
	locks    keyLocks
	count    *counters
	fail     context.CancelCauseFunc
	ended    <-chan struct{} // closed when the driver ends
}

// Run serves the kubelet until ctx ends.
func Run(ctx context.Context, o Options) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	data := filepath.Join(o.KubeletDir, "plugins", dra.Driver)
	daemon := control.NewClient(control.Socket(o.RunDir))
	d := &driver{
		Options: o, daemon: daemon, files: cdifiles.Dir(o.CDIDir), metadata: filepath.Join(data, "dra-device-metadata"), fail: fail, ended: ctx.Done(),
	}
	registry := prometheus.NewPedanticRegistry()
	d.slices = slices.New(slices.Options{
		Node: o.Node, Accounting: o.Accounting, NUMAAttributes: o.NUMAAttributes, Client: o.Client, Registry: registry, Log: o.Log,
	})
	d.watch = &watcher{daemon: daemon, log: o.Log, tell: d.slices.Answered, changed: make(chan struct{})}
	d.watch.tried.Store(time.Now().UnixNano())
	d.count = newCounters(registry, d.watch)
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
	all.Go(func() error {
		if err := d.slices.Run(ctx, helper.PublishResources); ctx.Err() == nil {
			return err
		}
		return nil // the end of ctx ends a publication in progress, too
	})
	for _, loop := range []func(context.Context){d.watch.run, d.cleanUp, d.writeStatuses} {
		all.Go(func() error { loop(ctx); return nil })
	}
	err = all.Wait()
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

// HandleError takes an error of the library. Errors of the publication are recoverable. Another error ends
// Run, for example if a socket cannot be served.
func (d *driver) HandleError(_ context.Context, err error, msg string) {
	select {
	case <-d.ended: // it is the end of a request in progress
		return
	default:
	}
	if errors.Is(err, kubeletplugin.ErrRecoverable) {
		d.slices.Failed(err, msg)
		return
	}
	d.fail(fmt.Errorf("%s: %w", msg, err))
}
