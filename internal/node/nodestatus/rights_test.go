package nodestatus_test

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
)

// grantedRights returns the rights of deploy/rbac.yaml, in the form of fakeAPI.calls.
func grantedRights(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{"nodes": "node", "nodes/status": "status", "events": "event"}
	verbs := map[string]string{"get": "GET", "watch": "WATCH", "patch": "PATCH", "create": "POST"}
	all := make(map[string]bool)
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var role rbacv1.ClusterRole
		if !bytes.Contains(doc, []byte("\nkind: ClusterRole\n")) {
			continue
		}
		if err := yaml.UnmarshalStrict(doc, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all[verbs[verb]+" "+words[resource]] = true
				}
			}
		}
	}
	return all
}

// TestRightsMatchUse checks that deploy/rbac.yaml grants the rights that the daemon uses, and
// no others.
func TestRightsMatchUse(t *testing.T) {
	f := newFakeAPI(t)
	f.delete()
	f.create(corev1.Taint{Key: "cpupoold.io/starting", Effect: "NoSchedule"})
	var later atomic.Int64
	o := nodestatus.Options{
		Name: "n1", Access: f.access(), Record: t.TempDir() + "/none", Version: "test", Limits: quickLimits(), Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) },
	}
	r := nodestatus.New(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	s := pooled()
	s.Taint, s.Verified, s.Condition = "cpupoold.io/starting", true, &nodestatus.Condition{Reason: "Starting"}
	s.Problems = []nodestatus.Problem{{UID: "u", Namespace: "ns", Pod: "p", Code: "Refused", Text: "why"}}
	r.Show(s)
	f.wait("everything", func() bool {
		return f.pooled() && len(f.node.Spec.Taints) == 0 && len(f.events) == 1 && f.condition() != nil
	})
	f.wait("the event's count", func() bool { return r.Stats().Events[telemetry.OK] == 1 })
	later.Store(int64(31 * time.Minute))
	r.Show(s)
	f.wait("the same event again", func() bool {
		for _, e := range f.events {
			return len(f.events) == 1 && e.Series != nil && e.Series.Count == 2
		}
		return false
	})
	cancel()
	<-done
	if _, err := nodestatus.Withdraw(t.Context(), o, s.Names); err != nil {
		t.Fatal(err)
	}
	used := make(map[string]bool)
	for call := range maps.Keys(f.calls) {
		used[call] = true
	}
	if diff := cmp.Diff(used, grantedRights(t)); diff != "" {
		t.Errorf("rights (-used +granted):\n%s", diff)
	}
}
