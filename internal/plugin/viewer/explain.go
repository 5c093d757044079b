package viewer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cpupoold/cpupoold/internal/inspect"
)

// Limits of explanations.
const (
	maxExplanation = 8 << 20 // bytes of one
	maxName        = 1024    // letters of a name in a request
	explainTime    = 30 * time.Second
	explainAtOnce  = 2
)

// Explainer returns the explanation of a container or unit in the status of a node.
type Explainer func(ctx context.Context, node string, c *inspect.Container) (*inspect.Explanation, error)

// Unexplained is the [Explainer] of a status from a file. Its error has the remedy.
func Unexplained(_ context.Context, _ string, c *inspect.Container) (*inspect.Explanation, error) {
	return nil, fmt.Errorf("a status from a file holds no explanation; run cpupoold explain '%s' on the node, or have kubectl cpupool serve ask a node of a cluster (--node)", c.Full())
}

// Name returns the name under which a daemon explains c alone: two pods can have the same
// name while one of them ends.
func Name(c *inspect.Container) string {
	switch {
	case c.Unit:
		return c.Name
	case c.PodUID != "":
		return c.PodUID + "/" + c.Name
	}
	return c.Full()
}

// ReadExplanation reads an explanation as cpupoold explain -o json prints it.
func ReadExplanation(r io.Reader) (*inspect.Explanation, error) {
	limited := &io.LimitedReader{R: r, N: maxExplanation}
	e := new(inspect.Explanation)
	err := json.NewDecoder(limited).Decode(e)
	switch {
	case err != nil && limited.N <= 0:
		return nil, fmt.Errorf("an explanation has more than %d bytes", maxExplanation)
	case err != nil:
		return nil, fmt.Errorf("no explanation: %w; want the output of cpupoold explain -o json", err)
	case e.Version != inspect.Version:
		return nil, fmt.Errorf("an explanation of version %d; this program knows version %d of what cpupoold explain -o json prints", e.Version, inspect.Version)
	}
	return e, nil
}

// Only returns the part of an explanation that is about c.
func Only(e *inspect.Explanation, c *inspect.Container) (*inspect.Explanation, error) {
	one := *e
	one.Asked = Name(c)
	subject := of(e.Subjects, one.Asked)
	if subject == nil {
		return nil, fmt.Errorf("the report does not explain %s: its MISSING.txt may state why", c.Full())
	}
	one.Subjects = []inspect.Subject{*subject}
	return &one, nil
}

// Explains sets the [Explainer], which is [Unexplained] before. It must be called before the
// server serves.
func (s *Server) Explains(by Explainer) { s.explain = by }

type explained struct {
	// Error is the reason why there is no explanation.
	Error       string               `json:"error,omitempty"`
	Explanation *inspect.Explanation `json:"explanation,omitempty"`
}

// serveExplanation answers for containers and units of the status only, so that a daemon
// receives no other text of a browser. It refuses requests of other sites.
func (s *Server) serveExplanation(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		http.Error(w, "another site's page may not ask", http.StatusForbidden)
		return
	}
	name := r.URL.Query().Get("of")
	if name == "" || len(name) > maxName {
		http.Error(w, fmt.Sprintf("of=NAME must be a container or unit of the state, of at most %d letters", maxName), http.StatusBadRequest)
		return
	}
	f := s.feed(w, r)
	if f == nil {
		return
	}
	state, _ := f.Now()
	c := named(state.Status, name)
	if c == nil {
		http.Error(w, "no container or unit of the state has this name; it may be gone: choose another", http.StatusNotFound)
		return
	}
	if subject := of(state.Subjects, name); subject != nil {
		e := &inspect.Explanation{Version: inspect.Version, Time: state.Status.Time, Asked: name, Subjects: []inspect.Subject{*subject}}
		answer(w, explained{Explanation: e})
		return
	}
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-r.Context().Done():
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), explainTime)
	defer cancel()
	var out explained
	var err error
	if out.Explanation, err = s.explain(ctx, cmp.Or(r.URL.Query().Get("node"), state.Status.Node), c); err != nil {
		out.Error = err.Error()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			out.Error = fmt.Sprintf("no explanation came within %v; choose it once more", explainTime)
		}
	}
	answer(w, out)
}

func answer(w http.ResponseWriter, out any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the browser has gone
}

// of returns the subject with a [Name], or nil.
func of(subjects []inspect.Subject, name string) *inspect.Subject {
	for i := range subjects {
		if Name(&subjects[i].Container) == name {
			return &subjects[i]
		}
	}
	return nil
}

// named returns the container or unit of a status with a [Name], or nil.
func named(s *inspect.Status, name string) *inspect.Container {
	if s == nil {
		return nil
	}
	for i := range s.Containers {
		if c := &s.Containers[i]; Name(c) == name {
			return c
		}
	}
	return nil
}
