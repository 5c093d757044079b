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
)

// The times of Kubernetes' own controllers.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// Election calls a function while this replica is elected. It implements manager.Runnable.
type Election struct {
	lock *resourcelock.LeaseLock
	lead func(context.Context)
}

// New returns an election by a Lease that must exist: then the program needs no right to
// create Leases. The elected replica calls lead, which works until its context ends.
func New(way *rest.Config, namespace, lease string, lead func(context.Context)) (*Election, error) {
	leases, err := coordinationv1.NewForConfig(way)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this replica: %w", err)
	}
	return &Election{lead: lead, lock: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: lease},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}}, nil
}

// Start implements manager.Runnable. It returns when ctx is done.
func (e *Election) Start(ctx context.Context) error {
	// The elector does not wait until lead returns. The mutex keeps two calls apart.
	var leading sync.Mutex
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Name: e.lock.LeaseMeta.Name, Lock: e.lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					leading.Lock()
					defer leading.Unlock()
					if ctx.Err() == nil {
						e.lead(ctx)
					}
				},
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			return fmt.Errorf("elect by Lease %s: %w", e.lock.LeaseMeta.Name, err)
		}
		elector.Run(ctx)
	}
	return nil
}
