package evictor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownNodePolicy binds each daemon to its own Node: deploy/rbac.yaml. Without it, the token of
// one daemon could mark every node as depleted. The rights in deploy/webhook/eviction are for
// this name. The content of the policy is checked, too.
const ownNodePolicy = "cpupoold-own-node"

// nodeOfToken is the key by which a policy finds the node of a service account's token
// (KEP-4193).
const nodeOfToken = "authentication.kubernetes.io/node-name"

// bound returns an error unless each daemon is bound to its own Node.
func bound(ctx context.Context, live client.Reader) error {
	const remedy = "; apply deploy/rbac.yaml, which has it"
	var policy admissionregistrationv1.ValidatingAdmissionPolicy
	if err := live.Get(ctx, client.ObjectKey{Name: ownNodePolicy}, &policy); err != nil {
		return fmt.Errorf("read ValidatingAdmissionPolicy %s: %w%s", ownNodePolicy, err, remedy)
	}
	var binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
	if err := live.Get(ctx, client.ObjectKey{Name: ownNodePolicy}, &binding); err != nil {
		return fmt.Errorf("read ValidatingAdmissionPolicyBinding %s: %w%s", ownNodePolicy, err, remedy)
	}
	if err := errors.Join(denies(&policy.Spec), enforced(&binding.Spec)); err != nil {
		return fmt.Errorf("ValidatingAdmissionPolicy %s does not keep daemons to their own Node: %w%s", ownNodePolicy, err, remedy)
	}
	return nil
}

// enforced returns an error unless a binding enforces the policy everywhere.
func enforced(b *admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec) error {
	switch {
	case b.PolicyName != ownNodePolicy:
		return fmt.Errorf("its binding is for %s", b.PolicyName)
	case b.MatchResources != nil:
		return errors.New("its binding has matchResources, and must match everything")
	case !slices.Contains(b.ValidationActions, admissionregistrationv1.Deny):
		return fmt.Errorf("its binding has validationActions %v, without Deny", b.ValidationActions)
	}
	return nil
}

// denies returns an error unless a policy denies changes of other Nodes. It does not evaluate
// expressions: it finds a policy that was emptied, narrowed or replaced. It does not find one
// that is made to deceive, because its author controls the cluster already.
func denies(p *admissionregistrationv1.ValidatingAdmissionPolicySpec) error {
	if p.FailurePolicy != nil && *p.FailurePolicy != admissionregistrationv1.Fail {
		return fmt.Errorf("its failurePolicy is %s", *p.FailurePolicy)
	}
	m := p.MatchConstraints
	if m == nil {
		return errors.New("it has no matchConstraints")
	}
	// Nodes have no namespace that a selector could match.
	if o := m.ObjectSelector; len(m.ExcludeResourceRules) > 0 || o != nil && len(o.MatchLabels)+len(o.MatchExpressions) > 0 {
		return errors.New("its matchConstraints leave something out")
	}
	for _, resource := range []string{"nodes", "nodes/status"} {
		if !slices.ContainsFunc(m.ResourceRules, func(r admissionregistrationv1.NamedRuleWithOperations) bool { return covers(&r, resource) }) {
			return fmt.Errorf("its matchConstraints do not have updates of %s", resource)
		}
	}
	// Variables with the token's node.
	var own []string
	for _, v := range p.Variables {
		if strings.Contains(v.Expression, nodeOfToken) {
			own = append(own, "variables."+v.Name)
		}
	}
	for _, v := range p.Validations {
		means := strings.Contains(v.Expression, nodeOfToken) ||
			slices.ContainsFunc(own, func(name string) bool { return strings.Contains(v.Expression, name) })
		if means && strings.Contains(v.Expression, "request.name") {
			return nil
		}
	}
	return fmt.Errorf("no validation of it compares request.name with %s", nodeOfToken)
}

// covers reports whether a rule matches updates of all objects of a resource of the core
// group.
func covers(r *admissionregistrationv1.NamedRuleWithOperations, resource string) bool {
	has := func(list []string, one string) bool { return slices.Contains(list, one) || slices.Contains(list, "*") }
	return len(r.ResourceNames) == 0 && has(r.APIGroups, "") && has(r.APIVersions, "v1") &&
		(has(r.Resources, resource) || slices.Contains(r.Resources, "*/*")) &&
		(slices.Contains(r.Operations, admissionregistrationv1.Update) || slices.Contains(r.Operations, admissionregistrationv1.OperationAll))
}

// Config configures the eviction of pods from nodes whose shared pool is depleted.
type Config struct {
	// Eviction selects whether pods without a CPU request are evicted from nodes that allow
	// it: off, dryRun or on. Default: off.
	Eviction Mode `yaml:"eviction"`
	// EvictionsPerMinute limits the evictions in the whole cluster, 1..60. Default: 6.
	EvictionsPerMinute int `yaml:"evictionsPerMinute"`
	// MaxNodesPercent is the part of all nodes that may be depleted at once. If more nodes
	// are depleted, no pod is evicted. One node may always be. 1..100. Default: 10.
	MaxNodesPercent int `yaml:"maxNodesPercent"`
	// After is the time for which a node must have been depleted, 0s..1h. Default: 1m.
	After time.Duration `yaml:"after"`
}

// Mode selects whether pods are evicted.
type Mode string

// Modes. With DryRun, events name the pods that On would evict, at the same pace.
const (
	Off    Mode = "off"
	DryRun Mode = "dryRun"
	On     Mode = "on"
)

// Default returns the configuration without any key.
func Default() Config {
	return Config{Eviction: Off, EvictionsPerMinute: 6, MaxNodesPercent: 10, After: time.Minute}
}

// Check calls wrong for each error, with the key in a configuration file that has the Config
// as depletion, its value, and a remedy.
func (c *Config) Check(wrong func(key, value, reason string)) {
	if c.Eviction != Off && c.Eviction != DryRun && c.Eviction != On {
		wrong("depletion.eviction", string(c.Eviction), "write off, dryRun or on")
	}
	if c.EvictionsPerMinute < 1 || c.EvictionsPerMinute > 60 {
		wrong("depletion.evictionsPerMinute", strconv.Itoa(c.EvictionsPerMinute), "is out of range; write 1 to 60")
	}
	if c.MaxNodesPercent < 1 || c.MaxNodesPercent > 100 {
		wrong("depletion.maxNodesPercent", strconv.Itoa(c.MaxNodesPercent), "is out of range; write 1 to 100")
	}
	if c.After < 0 || c.After > time.Hour {
		wrong("depletion.after", c.After.String(), "is out of range; write 0s to 1h")
	}
}

func (c *Config) interval() time.Duration {
	return time.Minute / time.Duration(c.EvictionsPerMinute)
}
