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

// A node's identity (authorization/node): the user of this name in this group.
const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
)

// Cluster is what a decision needs besides the pod.
type Cluster interface {
	// Settings are those in force, and false until they are known.
	Settings() (admission.Settings, bool)
	// Namespace returns the annotations of a namespace.
	Namespace(ctx context.Context, name string) (map[string]string, error)
}

// Priorities chooses priority classes of pods.
type Priorities interface {
	// Class is the class that a pod in a namespace gets in place of the one it has, "" when
	// it keeps that.
	Class(namespace, has string) string
}

// errUnknown is why requests cannot be answered yet.
var errUnknown = errors.New("the nodes of the cluster are not known yet")

// Pods rewrites pods that are created. Without p, they keep their priority classes.
func Pods(c Cluster, p Priorities, count Counter, log *slog.Logger) http.Handler {
	return &reviews{OfPods, mutatePods(c, p, count), count, log}
}

func mutatePods(c Cluster, p Priorities, count Counter) judge {
	return func(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		if err := wants(request, admissionv1.Create, ""); err != nil {
			return nil, err
		}
		settings, known := c.Settings()
		if !known {
			return nil, errUnknown
		}
		pod, err := decodePod(request.Object.Raw)
		if err != nil {
			return nil, err
		}
		annotations, err := c.Namespace(ctx, request.Namespace)
		if err != nil {
			return nil, err
		}
		own := ownPod(&request.UserInfo, pod)
		mutated, warnings, err := settings.Mutate(pod, admission.Origin{Namespace: annotations, Node: own})
		if refusal, ok := errors.AsType[*admission.Refusal](err); ok {
			return refused(refusal), nil
		}
		if err != nil {
			return nil, err
		}
		ops := admission.Patch(pod, mutated)
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
}

// wants says that a request is one for pods that the judge knows.
func wants(request *admissionv1.AdmissionRequest, operation admissionv1.Operation, subresource string) error {
	r := request.Resource
	if r.Group == "" && r.Version == "v1" && r.Resource == "pods" && request.SubResource == subresource && request.Operation == operation {
		return nil
	}
	return &badReview{fmt.Errorf("%s of %s/%s %s %s is not reviewed here; correct the webhook configuration's rules",
		request.Operation, r.Group, r.Version, r.Resource, request.SubResource)}
}

// ownPod says that a node makes a pod of its own: only then is true what the pod says
// about being a static one. The API server holds nodes to their own pods only with the
// NodeRestriction plugin.
func ownPod(user *authenticationv1.UserInfo, pod *corev1.Pod) bool {
	name, node := strings.CutPrefix(user.Username, nodeUserPrefix)
	return node && slices.Contains(user.Groups, nodesGroup) && name != "" && name == pod.Spec.NodeName
}

// reclassify gives a pod another priority class. The API server's own plugin has gone
// before, and has written what belongs to the class that the pod had. It comes again after
// this, and refuses what does not belong to the new one.
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

func patched(ops []admission.Operation) (*admissionv1.AdmissionResponse, error) {
	response := allowed()
	if len(ops) == 0 {
		return response, nil
	}
	patch, err := json.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	kind := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = patch, &kind
	return response, nil
}
