package evictor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseName is the Lease of who evicts. It is installed empty, so that the program may
// update this one and needs no right to create any.
const leaseName = "cpupool-webhook-eviction"

// As Kubernetes' own controllers have them.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// election lets one replica of all do something. It implements manager.Runnable. The
// manager's own election would end the program that loses, and with it a webhook.
type election struct {
	lock *resourcelock.LeaseLock
	// lead works until its context ends.
	lead func(context.Context)
}

func newElection(way *rest.Config, namespace string, lead func(context.Context)) (*election, error) {
	leases, err := coordinationv1.NewForConfig(way)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this replica: %w", err)
	}
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	return &election{lead: lead, lock: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + hex.EncodeToString(random)},
	}}, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: it is the election.
func (*election) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (e *election) Start(ctx context.Context) error {
	// The elector does not wait for who leads: one time ends before the next begins.
	var leading sync.Mutex
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Name: leaseName, Lock: e.lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
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
			return fmt.Errorf("elect who evicts: %w", err)
		}
		elector.Run(ctx)
	}
	return nil
}
