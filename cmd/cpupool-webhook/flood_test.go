package main

import (
	"bytes"
	"context"
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
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
)

const (
	maxMemory      = 128 << 20       // bytes
	requestTimeout = 5 * time.Minute // on a machine without free CPU time, the deadlines of the program end requests
	// deadline is the shortest deadline of the program. If a request fails earlier, the program has
	// closed its connection at a limit.
	deadline = 5 * time.Second
)

// TestStalledConnections checks that reviews and probes are answered while 1,000 connections
// stall, and that the program takes less than 128 MiB. It closes neither a connection with an
// answer nor a probe at a limit, and few others that do not stall.
func TestStalledConnections(t *testing.T) {
	const rounds, stalled, maxClosed = 10, 1000, 2
	w := startWebhook(t)
	before := w.peak(t)
	// Faulty clients share the address of the first reviewer. Its connection has an answer.
	kept, once := reviewer("127.0.1.1", false), reviewer("127.0.0.2", true)
	closed, keptClosed := 0, w.review(t, kept, 1)
	for round := range rounds {
		w.stall(t, round*stalled/rounds, stalled/rounds)
		keptClosed += w.review(t, kept, 1)
		closed += w.review(t, once, 1) + w.review(t, once, 1<<20)
		for _, path := range []string{"/healthz", "/readyz"} {
			if n := w.probe(t, path); n > 0 {
				t.Errorf("failed probes of %s = %d; want 0", path, n)
			}
		}
	}
	if keptClosed > 0 {
		t.Errorf("closed connections after an answer = %d; want 0", keptClosed)
	}
	if closed > maxClosed {
		t.Errorf("%d connections of %d reviews were closed; want %d at most", closed, 2*rounds, maxClosed)
	}
	m := w.peak(t)
	if m > maxMemory {
		t.Errorf("the program took %d MiB; want %d at most", m>>20, maxMemory>>20)
	}
	t.Logf("%d MiB (%d MiB before)", m>>20, before>>20)
}

// reviewOf returns a review of a pod whose containers are given as JSON.
func reviewOf(containers string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","resource":{"version":"v1","resource":"pods"},` +
		`"namespace":"default","operation":"CREATE","object":{"metadata":{"annotations":` +
		`{"target.workload.openshift.io/management":"{\"effect\":\"PreferredDuringScheduling\"}"}},"spec":{"containers":[` + containers + `]}}}}`
}

// TestDecodingIsBounded sends reviews whose values take much more memory than their text: one at a
// time above the limit of values, and many at a time below it.
func TestDecodingIsBounded(t *testing.T) {
	w := startWebhook(t)
	ask := func(body string) (int, error) {
		answer, err := reviewer("127.0.0.1", true).Post("https://"+w.reviews+"/mutate-pods", "application/json", strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	for _, text := range []string{`{},`, `null,`, `"",`} {
		if status, err := ask(reviewOf(strings.Repeat(text, 3<<20/len(text)) + `{}`)); status != http.StatusBadRequest {
			t.Errorf("3 MiB of %s: status %d, %v; want 400", text, status, err)
		}
	}
	const reviews, elements = 60, 19_900
	below := reviewOf(strings.Repeat(`{},`, elements-1) + `{}`)
	var answered atomic.Int64
	var all sync.WaitGroup
	for range reviews {
		all.Go(func() { // without free CPU time, the program's deadlines end some
			if status, err := ask(below); status == http.StatusOK {
				answered.Add(1)
			} else if err == nil {
				t.Errorf("%d elements: status %d; want 200", elements, status)
			}
		})
	}
	all.Wait()
	if answered.Load() == 0 {
		t.Errorf("answered reviews of %d elements = 0; want some", elements)
	}
	w.review(t, reviewer("127.0.0.1", true), 1)
	m := w.peak(t)
	if m > maxMemory {
		t.Errorf("the program took %d MiB; want %d at most", m>>20, maxMemory>>20)
	}
	t.Logf("%d MiB, %d of %d reviews answered", m>>20, answered.Load(), reviews)
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

// client is an API server's client.
type client struct {
	*http.Client
	dials    atomic.Int64
	answered time.Time // the time of the last answer, if connections are kept
}

// reviewer returns an API server's client. With once, each request has a new connection.
func reviewer(address string, once bool) *client {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c := &client{}
	c.Client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c.dials.Add(1)
			return d.DialContext(ctx, network, address)
		},
		ForceAttemptHTTP2: true, DisableKeepAlives: once, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	return c
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

// review asks for a review until the program answers it. It returns how often the program closed
// the connection at a limit.
func (w *program) review(t *testing.T, c *client, size int) (closed int) {
	t.Helper()
	body := encodeReview(size)
	began, dials := time.Now(), c.dials.Load()
	var last error
	if !nodefixture.Within(requestTimeout, func() bool {
		last = w.reviewOnce(c, body)
		if last != nil && time.Since(began) < deadline {
			closed++
			t.Logf("review of %d bytes: %v", size, last)
		}
		return last == nil
	}) {
		t.Fatalf("review of %d bytes: %v", size, last)
	}
	if c.Transport.(*http.Transport).DisableKeepAlives {
		return closed
	}
	// The client connects again without an error if the program has closed an idle connection. The
	// program does so after 2 minutes.
	idle := began.Sub(c.answered)
	if c.answered = time.Now(); c.dials.Load() > max(dials, 1) && closed == 0 && idle < time.Minute && time.Since(began) < deadline {
		t.Log("the idle connection was closed")
		closed++
	}
	return closed
}

func (w *program) reviewOnce(c *client, body []byte) error {
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

// probe asks as the kubelet does, until the program answers. It returns the number of requests that
// failed before a deadline.
func (w *program) probe(t *testing.T, path string) (failed int) {
	t.Helper()
	began := time.Now()
	if !nodefixture.Within(requestTimeout, func() bool {
		answered := w.answers(path)
		if !answered && time.Since(began) < deadline {
			failed++
		}
		return answered
	}) {
		t.Fatalf("%s gets no answer", path)
	}
	return failed
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
