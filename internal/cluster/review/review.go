package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// Names of the reviews, in metrics and log.
const (
	OfPods        = "pods"
	OfResizes     = "resize"
	OfAutoscalers = "autoscalers"
)

// Result is the outcome of a review.
type Result string

// Results of reviews.
const (
	Unchanged Result = "unchanged"
	Changed   Result = "changed"
	Refused   Result = "refused"
	Failed    Result = "failed" // an HTTP error: the failurePolicy decides
)

// Results returns all results.
func Results() []Result { return []Result{Unchanged, Changed, Refused, Failed} }

// A Counter counts reviews and warnings.
type Counter interface {
	Reviewed(name string, result Result)
	Warned(reason admission.Reason)
}

// largestReview is the maximum size of a request in bytes. An object has at most 3 MiB (the API
// server's MaxRequestBodyBytes), and a review contains two objects.
const largestReview = 7 << 20

// A judge checks a request, and returns the function that answers it. A judge may wait for the API
// server. The function decodes objects, and waits for nothing. Both return an error if they cannot
// decide, not if they refuse.
type judge func(ctx context.Context, request *admissionv1.AdmissionRequest) (decision, error)

// A decision is the answer to a request.
type decision = func() (*admissionv1.AdmissionResponse, error)

// reviews serves a judge as an admission webhook.
type reviews struct {
	name  string // of the webhook, in metrics and log
	judge judge
	count Counter
	log   *slog.Logger
	// turn has one holder, and the holder decodes a review. A decoded review takes hundreds of
	// times the memory of its text.
	turn *semaphore.Weighted
}

func newReviews(name string, j judge, count Counter, log *slog.Logger) *reviews {
	return &reviews{name, j, count, log, semaphore.NewWeighted(1)}
}

// ServeHTTP implements http.Handler.
func (r *reviews) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	defer func() {
		if cause := recover(); cause != nil {
			r.log.Error("review panicked", "webhook", r.name, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			r.fail(w, http.StatusInternalServerError, "internal error")
		}
	}()
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, largestReview))
	if err != nil {
		r.fail(w, http.StatusBadRequest, "read review: "+err.Error())
		return
	}
	answer, err := r.answer(request.Context(), body)
	switch _, bad := errors.AsType[*badReview](err); {
	case bad:
		r.fail(w, http.StatusBadRequest, err.Error())
	case err != nil && request.Context().Err() != nil: // the client has gone
		r.fail(w, http.StatusServiceUnavailable, err.Error())
	case err != nil:
		r.log.Error("review failed", "webhook", r.name, "error", err)
		r.fail(w, http.StatusInternalServerError, err.Error())
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer) // the client has gone if this fails
	}
}

func (r *reviews) fail(w http.ResponseWriter, code int, message string) {
	r.count.Reviewed(r.name, Failed)
	http.Error(w, message, code)
}

// badReview is the error of a request that is no review, or for another kind of object.
type badReview struct{ error }

// answer returns the encoded reply to a review. The client may read it slowly, so other reviews do
// not wait for that.
func (r *reviews) answer(ctx context.Context, body []byte) ([]byte, error) {
	isLarge, err := checkSize(body)
	if err != nil {
		return nil, &badReview{fmt.Errorf("decode review: %w", err)}
	}
	review, err := r.decodeReview(ctx, body, isLarge)
	if err != nil {
		return nil, err
	}
	decide, err := r.judge(ctx, review.Request)
	if err != nil {
		return nil, err
	}
	if err := r.takeTurn(ctx, isLarge); err != nil {
		return nil, err
	}
	defer r.turn.Release(1)
	response, err := decide()
	if err != nil {
		return nil, err
	}
	response.UID = review.Request.UID
	result := Unchanged
	switch {
	case !response.Allowed:
		result = Refused
	case len(response.Patch) > 0:
		result = Changed
	}
	r.count.Reviewed(r.name, result)
	return json.Marshal(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
}

// takeTurn waits until a review may be decoded. A large review takes tens of MiB. Go collects the
// garbage of earlier ones during other work, and later if the process gets little CPU time. So
// takeTurn collects it before the next large review.
func (r *reviews) takeTurn(ctx context.Context, isLarge bool) error {
	if err := r.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	if isLarge {
		runtime.GC()
	}
	return nil
}

// decodeReview decodes a review, but not its objects.
func (r *reviews) decodeReview(ctx context.Context, body []byte, isLarge bool) (*admissionv1.AdmissionReview, error) {
	if err := r.takeTurn(ctx, isLarge); err != nil {
		return nil, err
	}
	defer r.turn.Release(1)
	review := &admissionv1.AdmissionReview{}
	if err := decode(body, review); err != nil {
		return nil, &badReview{fmt.Errorf("decode review: %w", err)}
	}
	if want := admissionv1.SchemeGroupVersion.String(); review.APIVersion != want || review.Kind != "AdmissionReview" || review.Request == nil {
		return nil, &badReview{fmt.Errorf("%s %s is no request for a review; want %s AdmissionReview with a request", review.APIVersion, review.Kind, want)}
	}
	return review, nil
}

// decode decodes JSON like the API server, with case-sensitive names.
func decode(data []byte, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

func decodePod(raw []byte) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := decode(raw, pod); err != nil {
		return nil, &badReview{fmt.Errorf("decode pod: %w", err)}
	}
	return pod, nil
}

func allowed() *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// refused returns a reply with the changes that the author of the pod must make.
func refused(refusal *admission.Refusal) *admissionv1.AdmissionResponse {
	status := &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: refusal.Message,
	}
	if refusal.Forbidden {
		status.Code, status.Reason = http.StatusForbidden, metav1.StatusReasonForbidden
	}
	return &admissionv1.AdmissionResponse{Result: status}
}

// Limits of a review's JSON. An element of a list takes two bytes, and more than 800 in memory
// as a container. A real pod has a few hundred values. An empty list or object counts as one with
// a value.
const (
	maxElements = 20_000  // of all lists
	maxValues   = 200_000 // of all lists and objects
)

// A review above one of these sizes is large: its garbage is collected before the next large one.
// No real pod is large.
const (
	largeBytes    = 512 << 10
	largeElements = 1_000
	largeValues   = 10_000
)

// checkSize reports whether a review is large. It returns an error if a review has too many values to
// decode it in bounded memory. Of text that is no JSON, the decoder reports the error.
func checkSize(data []byte) (isLarge bool, err error) {
	var inList []bool // for each open list or object
	elements, values := 0, 0
	count := func() { // the first value of a list or object, or one after a comma
		values++
		if len(inList) > 0 && inList[len(inList)-1] {
			elements++
		}
	}
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			inList = append(inList, data[i] == '[')
			count()
		case ']', '}':
			inList = inList[:max(len(inList)-1, 0)]
		case ',':
			count()
		}
		if elements > maxElements || values > maxValues {
			return true, fmt.Errorf("more than %d list elements or %d values", maxElements, maxValues)
		}
	}
	return len(data) > largeBytes || elements > largeElements || values > largeValues, nil
}
