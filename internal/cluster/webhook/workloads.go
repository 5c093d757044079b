package webhook

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Limits of reads of workloads. Any user with the right to write an autoscaler causes such reads, so
// they have a client of their own: other reads do not wait for them.
const (
	workloadTimeout = time.Second // half of the webhook's timeoutSeconds
	workloadQPS     = 10
	workloadBurst   = 50
)

// workloads reads workloads from the API server. It implements review.Workloads.
type workloads struct{ client rest.Interface }

func newWorkloads(config *rest.Config) (*workloads, error) {
	limited := rest.CopyConfig(config)
	limited.APIPath, limited.GroupVersion, limited.NegotiatedSerializer = "/apis", &appsv1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	limited.RateLimiter, limited.QPS, limited.Burst = nil, workloadQPS, workloadBurst
	client, err := rest.RESTClientFor(limited)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return &workloads{client}, nil
}

// Get implements review.Workloads. Beyond the rate it returns an error at once.
func (w *workloads) Get(ctx context.Context, namespace, kind, name string) ([]byte, error) {
	resource, known := map[string]string{
		"DaemonSet": "daemonsets", "Deployment": "deployments", "ReplicaSet": "replicasets", "StatefulSet": "statefulsets",
	}[kind]
	if !known {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, workloadTimeout)
	defer cancel()
	data, err := w.client.Get().Namespace(namespace).Resource(resource).Name(name).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", resource, err)
	}
	return data, nil
}
