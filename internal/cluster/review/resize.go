package review

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// Resizes returns the webhook that checks resizes of running pods. With allowUnaccounted it
// admits every resize.
func Resizes(c Cluster, allowUnaccounted bool, count Counter, log *slog.Logger) http.Handler {
	return newReviews(OfResizes, reviewResize(c, allowUnaccounted), count, log)
}

func reviewResize(c Cluster, allowUnaccounted bool) judge {
	return func(_ context.Context, request *admissionv1.AdmissionRequest) (func() (*admissionv1.AdmissionResponse, error), error) {
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
	}
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
