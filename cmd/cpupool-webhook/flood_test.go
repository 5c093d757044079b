package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
)

const (
	maxMemory = 128 << 20       // bytes
	patience  = 5 * time.Minute // on a machine without free CPU time, the deadlines of the program end requests
)

// TestStalledConnections checks that reviews and probes are answered while 1,000 connections
// stall, and that the program takes less than 128 MiB.
func TestStalledConnections(t *testing.T) {
	const rounds, stalled = 10, 1000
	w := startWebhook(t)
	before := w.peak(t)
	// Faulty clients share the address of the first reviewer. Its connection has an answer.
	kept, once := reviewer("127.0.1.1", false), reviewer("127.0.0.2", true)
	repeated := w.review(t, kept, 1)
	for round := range rounds {
		w.stall(t, round*stalled/rounds, stalled/rounds)
		repeated += w.review(t, kept, 1) + w.review(t, once, 1) + w.review(t, once, 1<<20)
		w.probe(t, "/healthz")
		w.probe(t, "/readyz")
	}
	m := w.peak(t)
	if m > maxMemory {
		t.Errorf("the program took %d MiB; want %d at most", m>>20, maxMemory>>20)
	}
	t.Logf("%d MiB (%d MiB before), %d reviews repeated", m>>20, before>>20, repeated)
}

// TestDecodingIsBounded sends reviews whose values take much more memory than their text.
func TestDecodingIsBounded(t *testing.T) {
	w := startWebhook(t)
	for _, text := range []string{`{},`, `null,`, `"",`} {
		body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","resource":{"version":"v1","resource":"pods"},` +
			`"operation":"CREATE","object":{"spec":{"containers":[` + strings.Repeat(text, 3<<20/len(text)) + `{}]}}}}`
		answer, err := reviewer("127.0.0.1", true).Post("https://"+w.reviews+"/mutate-pods", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("3 MiB of %s: status %d; want 400", text, answer.StatusCode)
		}
	}
	w.review(t, reviewer("127.0.0.1", true), 1)
	if m := w.peak(t); m > maxMemory {
		t.Errorf("the program took %d MiB; want %d at most", m>>20, maxMemory>>20)
	}
}

// TestOldTLS checks that reviews need TLS 1.2.
func TestOldTLS(t *testing.T) {
	w := startWebhook(t)
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true} {
		c, err := tls.Dial("tcp", w.reviews, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

// stall opens connections that stall, and returns when each has sent its part. They stay open
// until the program closes them or the test ends.
func (w *program) stall(t *testing.T, from, count int) {
	t.Helper()
	const openers = 10
	var all sync.WaitGroup
	for opener := range openers {
		all.Go(func() {
			for i := from + opener; i < from+count; i += openers {
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%3))}}
				c, err := d.DialContext(t.Context(), "tcp", w.reviews)
				if err != nil {
					continue // closed at a limit
				}
				t.Cleanup(func() { _ = c.Close() })
				begin(c, i/openers)
				go func() { // reads answers until the program closes the connection
					_, _ = io.Copy(io.Discard, c)
					_ = c.Close()
				}()
			}
		})
	}
	all.Wait()
}

// begin sends the beginning of a request. A write fails if the program closes the connection.
func begin(c net.Conn, kind int) {
	const size = 7 << 20 // of the largest review
	s := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	header := fmt.Sprintf("POST /mutate-pods HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", size)
	switch kind % 5 {
	case 0: // nothing
	case 1: // the beginning of a handshake
		_, _ = c.Write([]byte{22, 3, 1, 2, 0, 1, 0})
	case 2: // a part of the header
		_, _ = io.WriteString(s, header)
	case 3: // the beginning of the body
		_, _ = io.WriteString(s, header+"\r\n{")
	case 4: // a part of the body, or the body without its last byte
		sent := size / 16
		if kind%20 == 19 {
			sent = size - 1
		}
		_, _ = s.Write(append([]byte(header+"\r\n"), bytes.Repeat([]byte(" "), sent)...))
	}
}

// reviewer returns an API server's client. With once, each request has a connection of its own.
func reviewer(address string, once bool) *http.Client {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{Transport: &http.Transport{
		DialContext: d.DialContext, ForceAttemptHTTP2: true, DisableKeepAlives: once, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
}

// encodeReview returns the review of a pod with an annotation of a size.
func encodeReview(size int) []byte {
	pod := fmt.Sprintf(`{"metadata":{"name":"a","annotations":{"target.workload.openshift.io/management":"{\"effect\":\"PreferredDuringScheduling\"}","x":%q}},`+
		`"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"400m"}}}]}}`, strings.Repeat("x", size))
	data, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "7", Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Namespace: "default", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(pod)},
		},
	})
	if err != nil {
		panic(err)
	}
	return data
}

// review asks for a review until the program answers it. It returns the number of requests that
// failed.
func (w *program) review(t *testing.T, c *http.Client, size int) (failed int) {
	t.Helper()
	body := encodeReview(size)
	var last error
	if !nodefixture.Within(patience, func() bool {
		if last = w.reviewOnce(c, body); last != nil {
			failed++
			t.Logf("review of %d bytes: %v", size, last)
		}
		return last == nil
	}) {
		t.Fatalf("review of %d bytes: %v", size, last)
	}
	return failed
}

func (w *program) reviewOnce(c *http.Client, body []byte) error {
	answer, err := c.Post("https://"+w.reviews+"/mutate-pods", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(answer.Body).Decode(&review); err != nil {
		return fmt.Errorf("status %d: %w", answer.StatusCode, err)
	}
	if review.Response == nil || len(review.Response.Patch) == 0 {
		return errors.New("the answer has no patch")
	}
	return nil
}

// probe asks as the kubelet does, until the program answers.
func (w *program) probe(t *testing.T, path string) {
	t.Helper()
	if !nodefixture.Within(patience, func() bool { return w.answers(path) }) {
		t.Fatalf("%s is not answered", path)
	}
}

// answers reports whether a probe succeeds.
func (w *program) answers(path string) bool {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := c.Get("http://" + w.probes + path)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// peak returns the most memory that the program has had, in bytes.
func (w *program) peak(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmHWM: the program has ended")
	return 0
}
