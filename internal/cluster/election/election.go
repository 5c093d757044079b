// Package election elects one replica of several by a Lease, and runs a function there. The
// manager's own election would end the program that loses, and with it a webhook.
package election

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// The times of Kubernetes' own controllers.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// New returns an election by a Lease that must exist: then the program needs no right to
// create Leases. The elected replica calls lead, which works until its context ends.
func New(way *rest.Config, namespace, lease string, lead func(context.Context)) (manager.RunnableFunc, error) {
	leases, err := coordinationv1.NewForConfig(way)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this replica: %w", err)
	}
	// The elector does not wait until lead returns. The mutex keeps two calls apart.
	var leading sync.Mutex
	config := leaderelection.LeaderElectionConfig{
		Name: lease, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: lease},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		},
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				leading.Lock()
				defer leading.Unlock()
				if ctx.Err() == nil {
					lead(ctx)
				}
			},
			OnStoppedLeading: func() {},
		},
	}
	return func(ctx context.Context) error {
		for ctx.Err() == nil {
			elector, err := leaderelection.NewLeaderElector(config)
			if err != nil {
				return fmt.Errorf("elect by Lease %s: %w", lease, err)
			}
			elector.Run(ctx)
		}
		return nil
	}, nil
}
