package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// The identity of a node (authorization/node): a user name with this prefix in this group.
const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
)

// Cluster is the input of a decision in addition to the pod.
type Cluster interface {
	// Settings returns the settings in force, and false until they are known.
	Settings() (admission.Settings, bool)
	// Namespace returns the annotations of a namespace.
	Namespace(ctx context.Context, name string) (map[string]string, error)
}

// Priorities chooses priority classes of pods.
type Priorities interface {
	// Class returns the class for a pod in a namespace that has class has, or "" if the pod
	// keeps its class.
	Class(namespace, has string) string
}

// errUnknown is the error of requests before the cluster is known.
var errUnknown = errors.New("the nodes of the cluster are not known yet")

// Pods returns the webhook that rewrites pods when they are created. Without p, pods keep their
// priority classes.
func Pods(c Cluster, p Priorities, count Counter, log *slog.Logger) http.Handler {
	return newReviews(OfPods, func(ctx context.Context, request *admissionv1.AdmissionRequest) (decision, error) {
		if err := wants(request, admissionv1.Create, ""); err != nil {
			return nil, err
		}
		settings, known := c.Settings()
		if !known {
			return nil, errUnknown
		}
		annotations, err := c.Namespace(ctx, request.Namespace)
		if err != nil {
			return nil, err
		}
		return func() (*admissionv1.AdmissionResponse, error) {
			return mutatePod(settings, annotations, p, count, request)
		}, nil
	}, count, log)
}

// mutatePod answers a request to create a pod in a namespace with annotations.
func mutatePod(
	settings admission.Settings, annotations map[string]string, p Priorities, count Counter, request *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	pod, err := decodePod(request.Object.Raw)
	if err != nil {
		return nil, err
	}
	pod.Namespace = request.Namespace // as the API server has it; older ones leave the field empty
	own := ownPod(&request.UserInfo, pod)
	from := admission.Origin{Namespace: annotations, Node: own}
	mutated, warnings, err := settings.Mutate(pod, from)
	if refusal, ok := errors.AsType[*admission.Refusal](err); ok {
		return refused(refusal), nil
	}
	if err != nil {
		return nil, err
	}
	mutated, removed := admission.RemoveVariables(mutated, from)
	warnings = slices.Concat(warnings, removed)
	ops := admission.Patch(pod, mutated, request.Object.Raw)
	if p != nil && !own {
		ops = append(ops, reclassify(pod, p.Class(request.Namespace, pod.Spec.PriorityClassName))...)
	}
	response, err := patched(ops)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		count.Warned(w.Reason)
		response.Warnings = append(response.Warnings, w.String())
	}
	return response, nil
}

// wants returns an error unless a request is for the given operation on pods.
func wants(request *admissionv1.AdmissionRequest, operation admissionv1.Operation, subresource string) error {
	r := request.Resource
	if r.Group == "" && r.Version == "v1" && r.Resource == "pods" && request.SubResource == subresource && request.Operation == operation {
		return nil
	}
	return &badReview{fmt.Errorf("%s of %s/%s %s %s is not reviewed here; correct the webhook configuration's rules",
		request.Operation, r.Group, r.Version, r.Resource, request.SubResource)}
}

// ownPod reports whether a node creates a pod for itself. Only then may the pod claim to be
// static. The API server restricts nodes to their own pods only with the NodeRestriction
// plugin.
func ownPod(user *authenticationv1.UserInfo, pod *corev1.Pod) bool {
	name, node := strings.CutPrefix(user.Username, nodeUserPrefix)
	return node && slices.Contains(user.Groups, nodesGroup) && name != "" && name == pod.Spec.NodeName
}

// reclassify returns the operations that give a pod another priority class. The API server's
// own plugin ran before and set the fields of the old class. It runs again afterwards and
// refuses fields that do not match the new class.
func reclassify(pod *corev1.Pod, class string) []admission.Operation {
	if class == "" {
		return nil
	}
	ops := []admission.Operation{{Op: "add", Path: "/spec/priorityClassName", Value: class}}
	if pod.Spec.Priority != nil {
		ops = append(ops, admission.Operation{Op: "remove", Path: "/spec/priority"})
	}
	if pod.Spec.PreemptionPolicy != nil {
		ops = append(ops, admission.Operation{Op: "remove", Path: "/spec/preemptionPolicy"})
	}
	return ops
}

// patched returns a reply that admits a pod with changes.
func patched(ops []admission.Operation) (*admissionv1.AdmissionResponse, error) {
	response := allowed()
	if len(ops) == 0 {
		return response, nil
	}
	patch, err := json.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	response.Patch, response.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	return response, nil
}

// Resizes returns the webhook that checks resizes of running pods. With allowUnaccounted it
// admits every resize.
func Resizes(c Cluster, allowUnaccounted bool, count Counter, log *slog.Logger) http.Handler {
	return newReviews(OfResizes, func(_ context.Context, request *admissionv1.AdmissionRequest) (decision, error) {
		if err := wants(request, admissionv1.Update, "resize"); err != nil {
			return nil, err
		}
		if allowUnaccounted {
			return func() (*admissionv1.AdmissionResponse, error) { return allowed(), nil }, nil
		}
		settings, known := c.Settings()
		if !known {
			return nil, errUnknown
		}
		return func() (*admissionv1.AdmissionResponse, error) { return resize(settings, request) }, nil
	}, count, log)
}

func resize(settings admission.Settings, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	before, err := decodePod(request.OldObject.Raw)
	if err != nil {
		return nil, err
	}
	after, err := decodePod(request.Object.Raw)
	if err != nil {
		return nil, err
	}
	before.Namespace, after.Namespace = request.Namespace, request.Namespace
	errs := settings.Resize(before, after)
	if len(errs) == 0 {
		return allowed(), nil
	}
	lines := make([]string, 0, len(errs))
	for _, e := range errs {
		lines = append(lines, e.Error())
	}
	return refused(&admission.Refusal{Forbidden: true, Message: strings.Join(lines, "; ")}), nil
}
