package viewer

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/codes"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/picture"
)

// assets are the files of the page. page.html is the page, and names the others.
//
//go:embed page
var assets embed.FS

// Limits of a browser's requests. A request for the next state is answered when the state
// changes, or after waitTimeout.
const (
	headerTime  = 5 * time.Second
	answerTime  = 60 * time.Second
	idleTime    = 2 * time.Minute
	maxWidth    = 4096 // pixels of a picture
	maxHeader   = 16 << 10
	waitTimeout = 25 * time.Second
)

// Server answers browsers.
type Server struct {
	nodes Nodes
	// hosts are the names of the server in requests.
	hosts []string

	explain Explainer
	asking  chan struct{} // bounds the explanations that are made at once
}

// New returns a server for nodes. It answers only requests for one of hosts, which are names
// or addresses without port. Otherwise a page of another site, in a browser of this machine,
// could read the answers under a name of that site.
func New(nodes Nodes, hosts ...string) *Server {
	return &Server{nodes: nodes, hosts: hosts, explain: Unexplained, asking: make(chan struct{}, explainAtOnce)}
}

// Serve answers on a listener until that is closed, with limits on every request.
func (s *Server) Serve(l net.Listener) error {
	h := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, WriteTimeout: answerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader}
	if err := h.Serve(l); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Handler returns the handler of these paths. Each but the first takes ?node=NAME, and has
// the first node without it.
//
//   - / is the page, and its files are next to it
//   - /picture.svg is the drawing with its style
//   - /state is the content of the page as JSON. With ?after=N it is answered when the state
//     has another number. ?width=N is the width of the drawing in it.
//   - /explain?of=NAME is the explanation of a container or unit as JSON
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", serveAsset("page.html"))
	mux.HandleFunc("GET /picture.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write([]byte(picture.Style())) // the browser has gone
	})
	files, err := fs.Glob(assets, "page/*.*")
	if err != nil {
		panic(err) // of the pattern above
	}
	for _, file := range files {
		mux.HandleFunc("GET /"+path.Base(file), serveAsset(path.Base(file)))
	}
	mux.HandleFunc("GET /explain", s.serveExplanation)
	mux.HandleFunc("GET /picture.svg", s.servePicture)
	mux.HandleFunc("GET /state", s.serveState)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !slices.ContainsFunc(s.hosts, func(h string) bool { return strings.EqualFold(h, strings.Trim(host, "[]")) }) {
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

// serveAsset returns a handler for a file of the page. No file contains data of a node.
func serveAsset(name string) http.HandlerFunc {
	kinds := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kinds[path.Ext(name)]+"; charset=utf-8")
		http.ServeFileFS(w, r, assets, "page/"+name)
	}
}

// feed returns the feed of the node in a request, or answers that there is no such node.
func (s *Server) feed(w http.ResponseWriter, r *http.Request) *Feed {
	f := s.nodes.Feed(r.URL.Query().Get("node"))
	if f == nil {
		http.Error(w, "no node has this name; it may be removed: choose another one", http.StatusNotFound)
	}
	return f
}

func (s *Server) servePicture(w http.ResponseWriter, r *http.Request) {
	f := s.feed(w, r)
	if f == nil {
		return
	}
	state, _ := f.Now()
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

func waiting(err error) string {
	if err != nil {
		return "there is nothing to show: " + err.Error()
	}
	return "there is nothing to show yet"
}

type shown struct {
	Number uint64 `json:"number"`
	// Error is the reason why nothing newer comes.
	Error string `json:"error,omitempty"`
	// Nodes are all nodes, if there are several ones or one with a name.
	Nodes  []Listed        `json:"nodes,omitempty"`
	Status *inspect.Status `json:"status,omitempty"`
	// Notes state the assumptions of a simulation.
	Notes []string        `json:"notes,omitempty"`
	Load  map[int]float64 `json:"load,omitempty"`
	// Links are the addresses of the descriptions of codes in the status.
	Links   map[string]string `json:"links,omitempty"`
	Picture string            `json:"picture,omitempty"`
}

func linksOf(s *inspect.Status) map[string]string {
	links := make(map[string]string)
	for i := range s.Problems {
		links[s.Problems[i].Code] = codes.Link(s.Problems[i].Code)
	}
	for i := range s.Containers {
		links[s.Containers[i].Code] = codes.Link(s.Containers[i].Code)
	}
	for i := range s.Claims {
		links[s.Claims[i].Code] = codes.Link(s.Claims[i].Code)
	}
	return links
}

func (s *Server) serveState(w http.ResponseWriter, r *http.Request) {
	f := s.feed(w, r)
	if f == nil {
		return
	}
	state, changed := f.Now()
	if after := r.URL.Query().Get("after"); after != "" && after == fmt.Sprint(state.Number) {
		timer := time.NewTimer(waitTimeout)
		defer timer.Stop()
		select {
		case <-changed:
			state, _ = f.Now()
		case <-timer.C:
			w.WriteHeader(http.StatusNoContent)
			return
		case <-r.Context().Done():
			return
		}
	}
	out := shown{Number: state.Number, Nodes: s.nodes.List(), Status: state.Status, Notes: state.Notes, Load: state.Load}
	switch {
	case state.Err != nil:
		out.Error = state.Err.Error()
	case state.Status == nil:
		out.Error = waiting(nil)
	}
	if state.Status != nil {
		out.Links = linksOf(state.Status)
		width, _ := strconv.Atoi(cmp.Or(r.URL.Query().Get("width"), "0")) // the default width for a text that is no number
		svg, err := picture.SVG(state.Status, picture.Options{Load: state.Load, Bare: true, Width: min(max(width, 0), maxWidth)})
		if err != nil {
			out.Error = err.Error()
		}
		out.Picture = string(svg)
	}
	answer(w, out)
}
