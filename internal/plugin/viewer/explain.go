package viewer

import (
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
	maxName        = 1024    // letters of a name that is asked for
	explainTime    = 30 * time.Second
	explainAtOnce  = 2
)

// Explainer returns the explanation of a container or unit that is in a status.
type Explainer func(ctx context.Context, c *inspect.Container) (*inspect.Explanation, error)

// Unexplained is the [Explainer] of a status from a file: its error says what to do.
func Unexplained(_ context.Context, c *inspect.Container) (*inspect.Explanation, error) {
	return nil, fmt.Errorf("a status from a file holds no explanation; run cpupoold explain '%s' on the node, or have kubectl cpupool serve ask a node of a cluster (--node)", c.Full())
}

// Name is the name under which a daemon explains c and nobody else: pods of one name
// can be there twice while one ends.
func Name(c *inspect.Container) string {
	switch {
	case c.Unit:
		return c.Name
	case c.PodUID != "":
		return c.PodUID + "/" + c.Name
	}
	return c.Full()
}

// ReadExplanation returns the one explanation that there is to be read: what
// cpupoold explain -o json prints.
func ReadExplanation(r io.Reader) (*inspect.Explanation, error) {
	limited := &io.LimitedReader{R: r, N: maxExplanation}
	e := new(inspect.Explanation)
	err := json.NewDecoder(limited).Decode(e)
	switch {
	case err != nil && limited.N <= 0:
		return nil, fmt.Errorf("an explanation has more than %d bytes", maxExplanation)
	case err != nil:
		return nil, fmt.Errorf("no explanation: %w; it is to be what cpupoold explain -o json prints", err)
	case e.Version != inspect.Version:
		return nil, fmt.Errorf("an explanation of version %d; this program knows version %d of what cpupoold explain -o json prints", e.Version, inspect.Version)
	}
	return e, nil
}

// Only returns what an explanation of many says of c.
func Only(e *inspect.Explanation, c *inspect.Container) (*inspect.Explanation, error) {
	one := *e
	one.Asked, one.Subjects = Name(c), nil
	for i := range e.Subjects {
		if Name(&e.Subjects[i].Container) == one.Asked {
			one.Subjects = append(one.Subjects, e.Subjects[i])
		}
	}
	if len(one.Subjects) == 0 {
		return nil, fmt.Errorf("the report does not explain %s: its MISSING.txt may say why", c.Full())
	}
	return &one, nil
}

// Explains has explanations come from an [Explainer]; before that they are [Unexplained].
// It is called before the server serves.
func (s *Server) Explains(by Explainer) { s.explain = by }

// explained is the answer about a container or unit.
type explained struct {
	// Error is why there is no explanation.
	Error       string               `json:"error,omitempty"`
	Explanation *inspect.Explanation `json:"explanation,omitempty"`
}

// serveExplanation answers for those alone who are in the status: no text of a browser's
// gets any further. Pages of somebody else's cannot have a daemon asked.
func (s *Server) serveExplanation(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		http.Error(w, "another site's page may not ask", http.StatusForbidden)
		return
	}
	name := r.URL.Query().Get("of")
	if name == "" || len(name) > maxName {
		http.Error(w, fmt.Sprintf("of=NAME is to be a container or unit of the state, of at most %d letters", maxName), http.StatusBadRequest)
		return
	}
	c := s.named(name)
	if c == nil {
		http.Error(w, "no container or unit of the state has this name; it may be gone: choose another", http.StatusNotFound)
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
	if out.Explanation, err = s.explain(ctx, c); err != nil {
		out.Error = err.Error()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			out.Error = fmt.Sprintf("no explanation came within %v; choose it once more", explainTime)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the browser has gone
}

// named is the container or unit of the state with a [Name]; nil when nobody has it.
func (s *Server) named(name string) *inspect.Container {
	state, _ := s.feed.Now()
	if state.Status == nil {
		return nil
	}
	for i := range state.Status.Containers {
		if c := &state.Status.Containers[i]; Name(c) == name {
			return c
		}
	}
	return nil
}
