package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/cputime"
)

// fixed is a cluster that stays as it is. Without settings it is not known yet.
type fixed struct {
	is          *admission.Settings
	annotations map[string]string // of every namespace
	err         error             // of asking for a namespace
}

func (f fixed) Settings() (admission.Settings, bool) {
	if f.is == nil {
		return admission.Settings{}, false
	}
	return *f.is, true
}

func (f fixed) Namespace(context.Context, string) (map[string]string, error) {
	return f.annotations, f.err
}

func managed() fixed {
	s := admission.Settings{Types: map[string]bool{"management": true}, SharedCPUs: true, GuaranteedCPUs: true}
	return fixed{is: &s, annotations: map[string]string{s.Names.AllowedKey(): "management"}}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// tally counts reviews by result, and warnings.
type tally struct {
	results map[Result]int
	warned  []admission.Reason
}

func newTally() *tally { return &tally{results: map[Result]int{}} }

func (c *tally) Reviewed(_ string, result Result) { c.results[result]++ }
func (c *tally) Warned(reason admission.Reason)   { c.warned = append(c.warned, reason) }

const (
	managementPod = `{"metadata":{"name":"etcd","annotations":{"target.workload.openshift.io/management":"{\"effect\":\"PreferredDuringScheduling\"}"},` +
		`"unknown":{"x":1}},"spec":{"containers":[{"name":"etcd","resources":{"requests":{"cpu":"400m","memory":"1Gi"}}}],"newer":true}}`
	sharedPod = `{"metadata":{"generateName":"web-"},"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"500m"}}}]}}`
	plainPod  = `{"metadata":{"name":"plain"},"spec":{"containers":[{"name":"a","resources":{}}]}}`
	twoTypes  = `{"metadata":{"annotations":{"target.workload.openshift.io/a":"","target.workload.openshift.io/b":""}},"spec":{"containers":[{"name":"a"}]}}`
	mirrorPod = `{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x","resources.workload.openshift.io/a":"{}"}},` +
		`"spec":{"nodeName":"n1","containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}}`
)

// creation asks for a pod to be made.
func creation(pod string) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		UID: "7", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Namespace: "default", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(pod)},
	}
}

func encodeReview(t testing.TB, request *admissionv1.AdmissionRequest) []byte {
	t.Helper()
	data, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// post sends a body and returns status code and answer.
func post(h http.Handler, body []byte) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)))
	return w.Code, w.Body.String()
}

// answered is the response of a review that is answered.
func answered(t testing.TB, h http.Handler, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	code, body := post(h, encodeReview(t, request))
	if code != http.StatusOK {
		t.Fatalf("status %d: %s; want %d", code, body, http.StatusOK)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal([]byte(body), &review); err != nil {
		t.Fatal(err)
	}
	if review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview" || review.Response == nil || review.Response.UID != request.UID {
		t.Fatalf("answer is no review of the request: %s", body)
	}
	return review.Response
}

func TestMutatePods(t *testing.T) {
	off := managed()
	off.is = &admission.Settings{}
	for name, c := range map[string]struct {
		cluster fixed
		pod     string
		user    authenticationv1.UserInfo
		patch   string
		refused string
		warning string
	}{
		"management": {cluster: managed(), pod: managementPod, patch: `[` +
			`{"op":"add","path":"/metadata/annotations/resources.workload.openshift.io~1etcd","value":"{\"cpushares\":409}"},` +
			`{"op":"remove","path":"/spec/containers/0/resources/requests/cpu"},` +
			`{"op":"add","path":"/spec/containers/0/resources/requests/management.workload.openshift.io~1cores","value":"400"},` +
			`{"op":"add","path":"/spec/containers/0/resources/limits","value":{"management.workload.openshift.io/cores":"400"}}]`},
		"shared": {cluster: managed(), pod: sharedPod, patch: `[` +
			`{"op":"add","path":"/spec/containers/0/resources/requests/openshift.io~1shared-cpus","value":"500"},` +
			`{"op":"add","path":"/spec/containers/0/resources/limits","value":{"openshift.io/shared-cpus":"500"}}]`},
		"variable": {cluster: managed(), warning: `environment variable "OPENSHIFT_SHARED_CPUS" was removed`,
			pod:   `{"metadata":{"name":"e"},"spec":{"containers":[{"name":"a","env":[{"name":"A"},{"name":"OPENSHIFT_SHARED_CPUS","value":"0-7"}],"resources":{}}]}}`,
			patch: `[{"op":"remove","path":"/spec/containers/0/env/1"}]`},
		"nothing to do": {cluster: managed(), pod: plainPod},
		"off": {cluster: off, pod: managementPod, warning: "the webhook's configuration has no such type",
			patch: `[{"op":"remove","path":"/metadata/annotations/target.workload.openshift.io~1management"},` +
				`{"op":"add","path":"/metadata/annotations/workload.openshift.io~1warning",` +
				`"value":"workload type \"management\" is ignored: the webhook's configuration has no such type; correct the annotation, or add the type to types"}]`},
		"refused":         {cluster: managed(), pod: twoTypes, refused: "annotation target.workload.openshift.io/"},
		"a node's mirror": {cluster: managed(), pod: mirrorPod, user: authenticationv1.UserInfo{Username: "system:node:n1", Groups: []string{"system:nodes"}}},
		"another node's": {cluster: off, pod: mirrorPod, user: authenticationv1.UserInfo{Username: "system:node:n2", Groups: []string{"system:nodes"}},
			patch: `[{"op":"remove","path":"/metadata/annotations/resources.workload.openshift.io~1a"}]`},
		"no node": {cluster: off, pod: mirrorPod, user: authenticationv1.UserInfo{Username: "system:node:n1", Groups: []string{"system:masters"}},
			patch: `[{"op":"remove","path":"/metadata/annotations/resources.workload.openshift.io~1a"}]`},
	} {
		count := newTally()
		request := creation(c.pod)
		request.UserInfo = c.user
		got := answered(t, Pods(c.cluster, nil, count, discard()), request)
		result := Unchanged
		switch {
		case c.refused != "":
			result = Refused
		case c.patch != "":
			result = Changed
		}
		if count.results[result] != 1 || len(count.results) != 1 || len(count.warned) > 0 != (c.warning != "") {
			t.Errorf("%s: counted %v and warnings %v, want %s", name, count.results, count.warned, result)
		}
		if c.refused != "" {
			if got.Allowed || got.Result.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Result.Message, c.refused) {
				t.Errorf("%s: %+v, want a refusal with %q", name, got, c.refused)
			}
			continue
		}
		if diff := cmp.Diff(c.patch, string(got.Patch)); !got.Allowed || diff != "" {
			t.Errorf("%s: allowed %t, patch (-want +got):\n%s", name, got.Allowed, diff)
		}
		if (got.PatchType != nil) != (c.patch != "") {
			t.Errorf("%s: patch type %v", name, got.PatchType)
		}
		if text := strings.Join(got.Warnings, "\n"); (text != "") != (c.warning != "") || !strings.Contains(text, c.warning) {
			t.Errorf("%s: warnings %q, want %q", name, text, c.warning)
		}
	}
}

// TestExceptedNamespace checks that the namespace of the request decides about exceptions. A pod can
// be without one in its metadata.
func TestExceptedNamespace(t *testing.T) {
	c := managed()
	c.is.Exceptions.Namespaces = []string{"ci"}
	for namespace, want := range map[string]bool{"ci": false, "default": true} {
		request := creation(sharedPod)
		request.Namespace = namespace
		response := answered(t, Pods(c, nil, newTally(), discard()), request)
		if got := strings.Contains(string(response.Patch), "shared-cpus"); got != want {
			t.Errorf("namespace %s: the pod gets shared-cpus: %t, want %t; patch %s", namespace, got, want, response.Patch)
		}
	}
}

func TestReviewResize(t *testing.T) {
	pod := func(cpu, own string) runtime.RawExtension {
		return runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","resources":{` +
			`"requests":{"cpu":"` + cpu + `","memory":"1Gi"` + own + `},"limits":{"cpu":"` + cpu + `","memory":"1Gi"` + own + `}}}]}}`)}
	}
	const own = `,"openshift.io/guaranteed-cpus":"2k"`
	request := creation("")
	request.Operation, request.SubResource = admissionv1.Update, "resize"
	request.OldObject, request.Object = pod("2", own), pod("3", own)
	for name, c := range map[string]struct {
		after            runtime.RawExtension
		allowUnaccounted bool
		allowed          bool
	}{
		"more CPUs":   {after: pod("3", own)},
		"unaccounted": {after: pod("3", own), allowUnaccounted: true, allowed: true},
		"the same":    {after: pod("2", own), allowed: true},
	} {
		request.Object = c.after
		count := newTally()
		got := answered(t, Resizes(managed(), c.allowUnaccounted, count, discard()), request)
		if got.Allowed != c.allowed || !got.Allowed && got.Result.Code != http.StatusForbidden {
			t.Errorf("%s: %+v, want allowed %t", name, got, c.allowed)
		}
	}
}

// TestFailures checks that a failing decision is no denial, so that the failurePolicy applies.
func TestFailures(t *testing.T) {
	unreachable := managed()
	unreachable.err = errors.New("read namespace: connection refused")
	update := creation(plainPod)
	update.Operation = admissionv1.Update
	status := creation(plainPod)
	status.SubResource = "status"
	for name, c := range map[string]struct {
		cluster fixed
		body    []byte
		code    int
		want    string
	}{
		"not known yet":     {fixed{}, encodeReview(t, creation(plainPod)), http.StatusInternalServerError, "not known yet"},
		"no namespace":      {unreachable, encodeReview(t, creation(plainPod)), http.StatusInternalServerError, "connection refused"},
		"empty":             {managed(), nil, http.StatusBadRequest, "decode review"},
		"no JSON":           {managed(), []byte("{"), http.StatusBadRequest, "decode review"},
		"no review":         {managed(), []byte(`{"apiVersion":"v1","kind":"Pod"}`), http.StatusBadRequest, "no request for a review"},
		"no request":        {managed(), []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), http.StatusBadRequest, "no request for a review"},
		"another version":   {managed(), []byte(`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"1"}}`), http.StatusBadRequest, "v1beta1"},
		"another operation": {managed(), encodeReview(t, update), http.StatusBadRequest, "not reviewed here"},
		"a subresource":     {managed(), encodeReview(t, status), http.StatusBadRequest, "not reviewed here"},
		"no pod":            {managed(), encodeReview(t, creation(`[]`)), http.StatusBadRequest, "decode pod"},
		"too many elements": {managed(), encodeReview(t, creation(`{"spec":{"containers":[`+strings.Repeat(`{},`, 20_001)+`{}]}}`)), http.StatusBadRequest, "20000 list elements"},
		"too many values":   {managed(), encodeReview(t, creation(`{"x":{`+strings.Repeat(`"\",":1,`, 200_001)+`"a":1}}`)), http.StatusBadRequest, "200000 values"},
		"one value each":    {managed(), encodeReview(t, creation(`{"x":{`+strings.Repeat(`"a":{"a":1},`, 100_001)+`"a":1}}`)), http.StatusBadRequest, "200000 values"},
		"one element each":  {managed(), encodeReview(t, creation(`{"x":{`+strings.Repeat(`"a":[{}],`, 20_001)+`"a":1}}`)), http.StatusBadRequest, "20000 list elements"},
		"too large":         {managed(), bytes.Repeat([]byte(" "), largestReview+1), http.StatusBadRequest, "read review"},
	} {
		count := newTally()
		code, body := post(Pods(c.cluster, nil, count, discard()), c.body)
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %q, want %d with %q", name, code, body, c.code, c.want)
		}
		if count.results[Failed] != 1 || len(count.results) != 1 {
			t.Errorf("%s: counted %v, want one failure", name, count.results)
		}
	}
	panics := func(context.Context, *admissionv1.AdmissionRequest) (func() (*admissionv1.AdmissionResponse, error), error) {
		panic("oh")
	}
	if code, body := post(newReviews(OfPods, panics, newTally(), discard()), encodeReview(t, creation(plainPod))); code != http.StatusInternalServerError {
		t.Errorf("panic: %d %q; want %d", code, body, http.StatusInternalServerError)
	}
}

// unread is the ResponseWriter of a client that does not read.
type unread struct {
	*httptest.ResponseRecorder
	begun, end chan struct{}
}

// Write implements io.Writer.
func (u unread) Write(p []byte) (int, error) {
	close(u.begun)
	<-u.end
	return len(p), nil
}

// asking is a cluster that does not answer a request for one namespace.
type asking struct {
	fixed
	asked, end chan struct{}
}

func (a asking) Namespace(ctx context.Context, name string) (map[string]string, error) {
	if name == "slow" {
		close(a.asked)
		<-a.end
	}
	return a.fixed.Namespace(ctx, name)
}

// TestReviewsDoNotWaitForOthers checks that a review is answered while a client does not read its
// answer, and while the API server does not answer for another review.
func TestReviewsDoNotWaitForOthers(t *testing.T) {
	c := asking{managed(), make(chan struct{}), make(chan struct{})}
	pods := Pods(c, nil, newTally(), discard())
	request := func(body []byte) *http.Request {
		return httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
	}
	var others sync.WaitGroup
	w := unread{httptest.NewRecorder(), make(chan struct{}), c.end}
	others.Go(func() { pods.ServeHTTP(w, request(encodeReview(t, creation(plainPod)))) })
	<-w.begun
	slow := creation(plainPod)
	slow.Namespace = "slow"
	others.Go(func() { pods.ServeHTTP(httptest.NewRecorder(), request(encodeReview(t, slow))) })
	<-c.asked
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := httptest.NewRecorder()
	pods.ServeHTTP(got, request(encodeReview(t, creation(plainPod))).WithContext(ctx))
	if got.Code != http.StatusOK {
		t.Errorf("a review while others wait: %d %s; want %d", got.Code, got.Body, http.StatusOK)
	}
	close(c.end)
	others.Wait()
}

// TestOneReviewIsDecoded checks that a review waits while another one is decoded, and that a client
// that leaves ends the wait.
func TestOneReviewIsDecoded(t *testing.T) {
	r := Pods(managed(), nil, newTally(), discard()).(*reviews)
	if err := r.turn.Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.answer(gone, encodeReview(t, creation(plainPod))); !errors.Is(err, context.Canceled) {
		t.Errorf("a second review: %v; want %v", err, context.Canceled)
	}
	r.turn.Release(1)
	r.judge = func(context.Context, *admissionv1.AdmissionRequest) (func() (*admissionv1.AdmissionResponse, error), error) {
		return func() (*admissionv1.AdmissionResponse, error) {
			if r.turn.TryAcquire(1) {
				t.Error("two reviews are decided at once")
			}
			return allowed(), nil
		}, nil
	}
	if _, err := r.answer(t.Context(), encodeReview(t, creation(plainPod))); err != nil {
		t.Fatal(err)
	}
}

// FuzzReview holds that no request makes the handlers panic, and that each request for
// a review of pods is answered by a valid one. It calls below the recovery from panics.
func FuzzReview(f *testing.F) {
	for _, pod := range []string{managementPod, sharedPod, plainPod, twoTypes, mirrorPod} {
		f.Add(encodeReview(f, creation(pod)))
		resized := creation(pod)
		resized.Operation, resized.SubResource, resized.OldObject.Raw = admissionv1.Update, "resize", []byte(managementPod)
		f.Add(encodeReview(f, resized))
	}
	count := newTally()
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, r := range []*reviews{
			Pods(managed(), nil, count, discard()).(*reviews),
			Resizes(managed(), false, count, discard()).(*reviews),
		} {
			answer, err := r.answer(t.Context(), body)
			if err != nil {
				if _, bad := errors.AsType[*badReview](err); !bad {
					t.Errorf("%s: %v", r.name, err)
				}
				continue
			}
			var asked, got admissionv1.AdmissionReview
			if err := decode(body, &asked); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(answer, &got); err != nil || got.Response == nil || got.Response.UID != asked.Request.UID {
				t.Fatalf("%s: answer %s, %v", r.name, answer, err)
			}
			if !got.Response.Allowed && (got.Response.Result == nil || got.Response.Result.Message == "" || got.Response.Patch != nil) {
				t.Errorf("%s: a refusal without words, or with a patch: %s", r.name, answer)
			}
		}
	})
}

// BenchmarkReview measures a review. It should take at most twice the time of decoding the same
// request and encoding the same reply.
func BenchmarkReview(b *testing.B) {
	body := encodeReview(b, creation(managementPod))
	c := managed()
	count := newTally()
	r := Pods(c, nil, count, discard()).(*reviews)
	b.Run("whole", func(b *testing.B) {
		before := cputime.Of(b)
		for b.Loop() {
			if _, err := r.answer(b.Context(), body); err != nil {
				b.Fatal(err)
			}
		}
		cputime.Report(b, before)
	})
	pod, err := decodePod([]byte(managementPod))
	if err != nil {
		b.Fatal(err)
	}
	mutated, _, err := c.is.Mutate(pod, admission.Origin{Namespace: c.annotations})
	if err != nil {
		b.Fatal(err)
	}
	ops := admission.Patch(pod, mutated, []byte(managementPod))
	b.Run("coding", func(b *testing.B) {
		before := cputime.Of(b)
		for b.Loop() {
			var review admissionv1.AdmissionReview
			if err := decode(body, &review); err != nil {
				b.Fatal(err)
			}
			if _, err := decodePod(review.Request.Object.Raw); err != nil {
				b.Fatal(err)
			}
			response, err := patched(ops)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response}); err != nil {
				b.Fatal(err)
			}
		}
		cputime.Report(b, before)
	})
}
