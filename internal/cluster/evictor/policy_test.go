package evictor

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// deployed returns the object of a type and name in a file of deploy.
func deployed[T interface {
	runtime.Object
	metav1.Object
}](t *testing.T, file, name string) T {
	t.Helper()
	data, err := os.ReadFile("../../../deploy/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			t.Fatalf("%s has no %s of the type", file, name)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if is, ok := object.(T); ok && is.GetName() == name {
			return is
		}
	}
}

// TestDeployedRights checks that the manifests grant rights for the names of the policy and
// the Lease.
func TestDeployedRights(t *testing.T) {
	const file = "webhook/eviction/eviction.yaml"
	for _, r := range deployed[*rbacv1.ClusterRole](t, file, leaseName).Rules {
		if slices.Contains(r.APIGroups, "admissionregistration.k8s.io") && !slices.Equal(r.ResourceNames, []string{ownNodePolicy}) {
			t.Errorf("policies %v may be read, and %s is", r.ResourceNames, ownNodePolicy)
		}
	}
	for _, r := range deployed[*rbacv1.Role](t, file, leaseName).Rules {
		if !slices.Equal(r.ResourceNames, []string{leaseName}) {
			t.Errorf("leases %v may be updated, and %s is; want %v", r.ResourceNames, leaseName, []string{leaseName})
		}
	}
}

// TestDenies checks denies with the installed policy and with changed ones.
func TestDenies(t *testing.T) {
	type policy = admissionregistrationv1.ValidatingAdmissionPolicySpec
	ignore := admissionregistrationv1.Ignore
	rule := func(p *policy) *admissionregistrationv1.NamedRuleWithOperations {
		return &p.MatchConstraints.ResourceRules[0]
	}
	for name, c := range map[string]struct {
		change func(*policy)
		want   string // in the error; none where it is empty
	}{
		"as deployed":          {func(*policy) {}, ""},
		"failure by default":   {func(p *policy) { p.FailurePolicy = nil }, ""},
		"every resource":       {func(p *policy) { rule(p).Resources = []string{"*/*"} }, ""},
		"every operation":      {func(p *policy) { rule(p).Operations = []admissionregistrationv1.OperationType{"*"} }, ""},
		"an empty selector":    {func(p *policy) { p.MatchConstraints.ObjectSelector = &metav1.LabelSelector{} }, ""},
		"without the variable": {func(p *policy) { inline(p) }, ""},
		"failures let in":      {func(p *policy) { p.FailurePolicy = &ignore }, "failurePolicy is Ignore"},
		"nothing matched":      {func(p *policy) { p.MatchConstraints = nil }, "no matchConstraints"},
		"some left out": {func(p *policy) {
			p.MatchConstraints.ExcludeResourceRules = p.MatchConstraints.ResourceRules
		}, "leave something out"},
		"some selected": {func(p *policy) {
			p.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, "leave something out"},
		"without the status":  {func(p *policy) { rule(p).Resources = []string{"nodes"} }, "updates of nodes/status"},
		"of one node":         {func(p *policy) { rule(p).ResourceNames = []string{"n1"} }, "updates of nodes"},
		"of another group":    {func(p *policy) { rule(p).APIGroups = []string{"apps"} }, "updates of nodes"},
		"of another version":  {func(p *policy) { rule(p).APIVersions = []string{"v2"} }, "updates of nodes"},
		"not of updates":      {func(p *policy) { rule(p).Operations = []admissionregistrationv1.OperationType{"CREATE"} }, "updates of nodes"},
		"no validations":      {func(p *policy) { p.Validations = nil }, "no validation"},
		"not the token's":     {func(p *policy) { p.Variables = nil }, "no validation"},
		"not the first check": {func(p *policy) { p.Validations = p.Validations[1:] }, "no validation"},
	} {
		t.Run(name, func(t *testing.T) {
			p := deployed[*admissionregistrationv1.ValidatingAdmissionPolicy](t, "rbac.yaml", ownNodePolicy).Spec
			c.change(&p)
			err := denies(&p)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("denies: %v; want %q", err, c.want)
			}
		})
	}
}

// inline replaces variables in the validations by their expressions.
func inline(p *admissionregistrationv1.ValidatingAdmissionPolicySpec) {
	for i := range p.Validations {
		for _, v := range p.Variables {
			p.Validations[i].Expression = strings.ReplaceAll(p.Validations[i].Expression, "variables."+v.Name, "("+v.Expression+")")
		}
	}
	p.Variables = nil
}

func TestEnforced(t *testing.T) {
	type binding = admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec
	for name, c := range map[string]struct {
		change func(*binding)
		want   string
	}{
		"as deployed":     {func(*binding) {}, ""},
		"audited, too":    {func(b *binding) { b.ValidationActions = append(b.ValidationActions, admissionregistrationv1.Audit) }, ""},
		"another's":       {func(b *binding) { b.PolicyName = "other" }, "is for other"},
		"of some objects": {func(b *binding) { b.MatchResources = &admissionregistrationv1.MatchResources{} }, "matchResources"},
		"warned of": {func(b *binding) {
			b.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
		}, "without Deny"},
	} {
		t.Run(name, func(t *testing.T) {
			b := deployed[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, "rbac.yaml", ownNodePolicy).Spec
			c.change(&b)
			err := enforced(&b)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("enforced: %v; want %q", err, c.want)
			}
		})
	}
}
