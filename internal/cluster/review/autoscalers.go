package review

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/autoscaling"
)

// Workloads reads the targets of autoscalers.
type Workloads interface {
	// Get returns the JSON of a workload of the group apps, and nil if it is no object of a known
	// kind. It gives up soon, and also when autoscalers change too often.
	Get(ctx context.Context, namespace, kind, name string) ([]byte, error)
}

// maxTargets is the maximum number of workloads in memory. One takes up to 1.5 MiB, the limit of
// etcd, and any user with the right to write an autoscaler causes a read.
const maxTargets = 4

// Autoscalers returns the webhook that warns about autoscalers which use the CPU requests of
// management pods. It admits every autoscaler. If it cannot read the target, it does not warn.
func Autoscalers(c Cluster, w Workloads, count Counter, log *slog.Logger) http.Handler {
	r := newReviews(OfAutoscalers, nil, count, log)
	reads := semaphore.NewWeighted(maxTargets)
	r.judge = func(ctx context.Context, request *admissionv1.AdmissionRequest) (decision, error) {
		if !autoscaling.Is(request.Kind.Group, request.Kind.Kind) || request.SubResource != "" {
			return nil, &badReview{fmt.Errorf("%s %s %s is not reviewed here; correct the webhook configuration's rules",
				request.Kind.Group, request.Kind.Kind, request.SubResource)}
		}
		use, uses, err := r.decodeUse(ctx, request)
		if err != nil {
			return nil, err
		}
		settings, known := c.Settings()
		if !uses || !known {
			return func() (*admissionv1.AdmissionResponse, error) { return allowed(), nil }, nil
		}
		if err := reads.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		defer reads.Release(1)
		workload, annotations, err := readTarget(ctx, c, w, request.Namespace, &use)
		if err != nil {
			log.Debug("read the target of an autoscaler", "namespace", request.Namespace, "kind", use.Target.Kind, "name", use.Target.Name, "error", err)
		}
		if err := r.takeTurn(ctx, false); err != nil {
			return nil, err
		}
		defer r.turn.Release(1)
		response := warnUse(settings, annotations, workload, &use, request)
		return func() (*admissionv1.AdmissionResponse, error) { return response, nil }, nil
	}
	return r
}

// decodeUse returns how an autoscaler uses CPU requests, and false if it does not.
func (r *reviews) decodeUse(ctx context.Context, request *admissionv1.AdmissionRequest) (autoscaling.Use, bool, error) {
	if err := r.takeTurn(ctx, false); err != nil {
		return autoscaling.Use{}, false, err
	}
	defer r.turn.Release(1)
	var a autoscaling.Autoscaler
	if err := decode(request.Object.Raw, &a); err != nil {
		return autoscaling.Use{}, false, &badReview{fmt.Errorf("decode autoscaler: %w", err)}
	}
	use, uses := a.Use(request.Kind.Kind)
	return use, uses, nil
}

// readTarget returns the JSON of an autoscaler's target and the annotations of its namespace.
func readTarget(ctx context.Context, c Cluster, w Workloads, namespace string, use *autoscaling.Use) ([]byte, map[string]string, error) {
	if group, _, _ := strings.Cut(use.Target.APIVersion, "/"); group != "apps" && group != "" { // KEDA's default is apps
		return nil, nil, nil
	}
	annotations, err := c.Namespace(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	workload, err := w.Get(ctx, namespace, use.Target.Kind, use.Target.Name)
	return workload, annotations, err
}

// warnUse returns a reply with a warning if the pods of a workload run in a management pool. The
// workload may be nil.
func warnUse(
	settings admission.Settings, annotations map[string]string, workload []byte, use *autoscaling.Use, request *admissionv1.AdmissionRequest,
) *admissionv1.AdmissionResponse {
	response := allowed()
	if workload == nil {
		return response
	}
	isLarge, err := checkSize(workload)
	if err != nil {
		return response
	}
	if isLarge { // the review is small, so takeTurn has collected nothing
		runtime.GC()
	}
	var w struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := decode(workload, &w); err != nil {
		return response
	}
	pod := &corev1.Pod{ObjectMeta: w.Spec.Template.ObjectMeta, Spec: w.Spec.Template.Spec}
	if use.Concerns(pod) && settings.Manages(pod, admission.Origin{Namespace: annotations}) {
		response.Warnings = []string{use.Sentence(request.Kind.Kind, request.Name) + "; " + use.Remedy}
	}
	return response
}
