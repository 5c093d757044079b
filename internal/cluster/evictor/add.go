package evictor

import (
	"fmt"
	"log/slog"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/cpupoold/cpupoold/internal/cluster/election"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// recorder is the name of the program in events.
const recorder = "cpupool-webhook"

// leaseName is the Lease of the replica that evicts. Its manifest is empty.
const leaseName = "cpupool-webhook-eviction"

// Options configures Add.
type Options struct {
	Config Config
	// Names are the names of resources and annotations.
	Names workload.Names
	// Namespace is the namespace of the program and of its Lease.
	Namespace string
	REST      *rest.Config
	Log       *slog.Logger
}

// Add adds the evictor to a manager, unless the configuration switches it off. It evicts
// pods in one of all replicas. The manager's cache may be limited to the fields of Nodes
// that [eviction.Pressed] reads.
func Add(m manager.Manager, o Options) error {
	if o.Config.Eviction == Off {
		return nil
	}
	count := newCounters(metrics.Registry)
	core, err := corev1client.NewForConfig(o.REST)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	evicts := &evictor{
		config: o.Config, names: o.Names,
		nodes: m.GetCache(), live: m.GetAPIReader(), pods: core.RESTClient(), events: m.GetEventRecorder(recorder),
		count: count, log: o.Log, now: time.Now,
	}
	leader, err := election.New(o.REST, o.Namespace, leaseName, evicts.lead)
	if err != nil {
		return err
	}
	return m.Add(leader)
}
