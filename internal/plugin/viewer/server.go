package viewer

import (
	_ "embed" // of the page
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/picture"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

//go:embed explain.js
var explainJS string

// Limits of a browser's requests. What is watched is answered when something changes,
// or after waitPatience.
const (
	headerTime   = 5 * time.Second
	answerTime   = 60 * time.Second
	idleTime     = 2 * time.Minute
	maxHeader    = 16 << 10
	waitPatience = 25 * time.Second
)

// Server answers browsers.
type Server struct {
	feed *Feed
	// hosts are the names under which it may be asked.
	hosts []string
	page  *template.Template

	explain Explainer
	asking  chan struct{} // who has an explanation made
}

// New returns a server for what the feed holds. Only requests for one of hosts, names or
// addresses without port, are answered: a page of somebody else's that a browser on this
// machine shows could ask under a name of its own otherwise.
func New(feed *Feed, hosts ...string) (*Server, error) {
	page, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	return &Server{feed: feed, hosts: hosts, page: page, explain: Unexplained, asking: make(chan struct{}, explainAtOnce)}, nil
}

// Serve answers on a listener until that is closed, with limits on every request.
func (s *Server) Serve(l net.Listener) error {
	h := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, WriteTimeout: answerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader}
	if err := h.Serve(l); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Handler answers: / is the page, /picture.svg the drawing with its style, /state what
// the page shows, as JSON; with ?after=N once there is a state of another number;
// /explain?of=NAME why a container or unit of the state runs where it runs, as JSON.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.servePage)
	mux.HandleFunc("GET /page.css", serveText("text/css; charset=utf-8", pageCSS+picture.Style()))
	mux.HandleFunc("GET /page.js", serveText("text/javascript; charset=utf-8", pageJS))
	mux.HandleFunc("GET /explain.js", serveText("text/javascript; charset=utf-8", explainJS))
	mux.HandleFunc("GET /explain", s.serveExplanation)
	mux.HandleFunc("GET /picture.svg", s.servePicture)
	mux.HandleFunc("GET /state", s.serveState)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !s.knows(strings.Trim(host, "[]")) {
			http.Error(w, fmt.Sprintf("this server is not called %q; ask for one of %s", host, strings.Join(s.hosts, ", ")), http.StatusMisdirectedRequest)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

func (s *Server) knows(host string) bool {
	for _, h := range s.hosts {
		if strings.EqualFold(h, host) {
			return true
		}
	}
	return false
}

func serveText(kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, text) // the browser has gone
	}
}

func (s *Server) servePage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = s.page.Execute(w, nil) // the browser has gone: the page has no data in it
}

func (s *Server) servePicture(w http.ResponseWriter, _ *http.Request) {
	state, _ := s.feed.Now()
	if state.Status == nil {
		http.Error(w, waiting(state.Err), http.StatusServiceUnavailable)
		return
	}
	svg, err := picture.SVG(state.Status, picture.Options{Load: state.Load})
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	// Opened by itself it has its style in it.
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = w.Write(svg) // the browser has gone
}

// waiting says why there is nothing to show yet.
func waiting(err error) string {
	if err != nil {
		return "there is nothing to show: " + err.Error()
	}
	return "there is nothing to show yet"
}

// shown is what the page shows.
type shown struct {
	Number uint64 `json:"number"`
	// Error is why nothing newer comes.
	Error   string          `json:"error,omitempty"`
	Status  *inspect.Status `json:"status,omitempty"`
	Load    map[int]float64 `json:"load,omitempty"`
	Picture string          `json:"picture,omitempty"`
}

func (s *Server) serveState(w http.ResponseWriter, r *http.Request) {
	state, changed := s.feed.Now()
	if after := r.URL.Query().Get("after"); after != "" && after == fmt.Sprint(state.Number) {
		timer := time.NewTimer(waitPatience)
		defer timer.Stop()
		select {
		case <-changed:
			state, _ = s.feed.Now()
		case <-timer.C:
			w.WriteHeader(http.StatusNoContent)
			return
		case <-r.Context().Done():
			return
		}
	}
	out := shown{Number: state.Number, Status: state.Status, Load: state.Load}
	switch {
	case state.Err != nil:
		out.Error = state.Err.Error()
	case state.Status == nil:
		out.Error = waiting(nil)
	}
	if state.Status != nil {
		svg, err := picture.SVG(state.Status, picture.Options{Load: state.Load, Bare: true})
		if err != nil {
			out.Error = err.Error()
		}
		out.Picture = string(svg)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the browser has gone
}
