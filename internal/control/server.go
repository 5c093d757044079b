package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/cpupoold/cpupoold/internal/limits"
)

// MoveFunc makes one move. It returns when the move is verified or refused, or ctx ends.
type MoveFunc func(ctx context.Context, m Move) (Outcome, error)

// Server answers requests on the socket.
//
//	POST /v1/moves  [{"podUID": "…", "container": "du", "from": "2,4", "to": "2-3"}]
//
// The server makes the moves one after another. It answers when the last move is
// verified or a move fails, with a [Result] for each:
//
//	[{"podUID": "…", "container": "du", "from": "2,4", "to": "2-3", "outcome": "done"}]
//
// The next two requests return an inspect.Status and an inspect.Events. With wait, which
// is 30s at most, the answer comes after the first event whose number is above after:
//
//	GET /v1/status?after=7&wait=30s
//	GET /v1/events?after=7&wait=30s&since=2026-01-31T12:00:00Z&about=ran/du-0&kind=wrote&limit=10
//
// The last one returns an inspect.Explanation. Its HTTP status is 404 if the name matches
// nothing, or more than one object:
//
//	GET /v1/explain?about=ran/du-0/du
//
// The kubelet's plugin for ResourceClaims uses three more. The first one returns an inspect.Claims:
//
//	GET /v1/claims?after=7&wait=30s
//	PUT /v1/claims/UID  {"namespace": "ran", "name": "du-0", "podUID": "…",
//	                     "requests": [{"request": "cpus", "device": "numa0", "shareID": "…", "cpus": 4}]}
//	DELETE /v1/claims/UID?podUID=POD
//
// The answer to PUT has the CPUs of each request. The same body gets the same answer. The journal is on disk
// before the answer:
//
//	{"requests": [{"request": "cpus", "device": "numa0", "shareID": "…", "cpus": "2-3,10-11"}]}
//
// The HTTP status of PUT is 409 for another body, for too few CPUs, and for a device that the node does not
// have. DELETE returns 204, also for an unknown claim, and 409 while a container of the claim runs. With podUID,
// which is optional, it also returns 409 if the claim is for another pod. Both return 503 if another try can succeed.
//
// Other errors have an HTTP status of 400 or above and the body {"error": "…"}.
type Server struct {
	http.Handler
	answers Answers
	slots   chan struct{} // holds one value for each query that is being answered
	move    MoveFunc
	claims  ClaimFuncs
	timeout time.Duration // of one move
	busy    sync.Mutex    // held by the request that makes moves
	log     *slog.Logger
}

// Limits of the socket. Only root can open it: they bound what a faulty client of root takes.
const (
	maxConnections = 32
	headerTimeout  = 5 * time.Second  // until the header of a request is read
	bodyTimeout    = 5 * time.Second  // until its body is read
	answerTimeout  = 15 * time.Second // until the client has read the answer
	maxHeader      = 16 << 10         // bytes
)

// New returns a server. It calls move for one move at a time, with this timeout.
func New(move MoveFunc, timeout time.Duration, claims ClaimFuncs, answers Answers, log *slog.Logger) *Server {
	mux := http.NewServeMux()
	s := &Server{
		Handler: http.MaxBytesHandler(mux, maxBody), answers: answers, slots: make(chan struct{}, maxQueries),
		move: move, claims: claims, timeout: timeout, log: log,
	}
	mux.HandleFunc("POST /v1/moves", s.serveMoves)
	mux.HandleFunc("GET /v1/status", s.handleQuery(func(*query) (any, error) { return answers.Status(), nil }))
	mux.HandleFunc("GET /v1/events", s.handleQuery(s.events))
	mux.HandleFunc("GET /v1/claims", s.handleQuery(func(*query) (any, error) { return answers.Claims(), nil }))
	mux.HandleFunc("PUT /v1/claims/{uid}", s.prepareClaim)
	mux.HandleFunc("DELETE /v1/claims/{uid}", s.endClaim)
	mux.HandleFunc("GET /v1/explain", s.handleQuery(s.explain))
	return s
}

// Serve listens on a socket and answers until ctx ends. Then it cancels the contexts of all
// requests, and waits up to two seconds for their answers. It replaces an existing socket:
// the caller holds the lock of the node, so that no other daemon uses it.
func (s *Server) Serve(ctx context.Context, socket string) error {
	l, remove, err := listen(ctx, socket)
	if err != nil {
		return err
	}
	defer remove()
	srv := &http.Server{
		Handler:           s,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	return limits.Serve(ctx, socket, netutil.LimitListener(l, maxConnections), srv)
}

func (s *Server) serveMoves(w http.ResponseWriter, r *http.Request) {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // httptest.ResponseRecorder does not support it
	body, err := io.ReadAll(r.Body)
	_ = conn.SetReadDeadline(time.Time{}) // the deadline would cancel the context of the moves
	if err != nil {
		status := http.StatusBadRequest
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			status = http.StatusRequestEntityTooLarge
		}
		s.answer(w, status, failure{err.Error()})
		return
	}
	moves, err := decodeMoves(body)
	if err != nil {
		s.answer(w, http.StatusBadRequest, failure{err.Error()})
		return
	}
	if !s.busy.TryLock() {
		s.answer(w, http.StatusConflict, failure{"another request is moving owners; try again with a new report"})
		return
	}
	defer s.busy.Unlock()
	s.answer(w, http.StatusOK, s.moveAll(r.Context(), moves))
}

// moveAll skips moves after a failure: they may need the CPUs that it releases.
func (s *Server) moveAll(ctx context.Context, moves []Move) []Result {
	results := make([]Result, len(moves))
	done := true
	for i, m := range moves {
		results[i] = Result{Move: m, Outcome: Skipped, Detail: "a move before it was not done"}
		if done {
			ctx, cancel := context.WithTimeout(ctx, s.timeout)
			outcome, err := s.move(ctx, m)
			cancel()
			results[i] = Result{Move: m, Outcome: outcome}
			if err != nil {
				results[i].Detail = err.Error()
			}
			done = outcome == Done
		}
	}
	return results
}

type failure struct {
	Error string `json:"error"`
}

func (s *Server) answer(w http.ResponseWriter, status int, v any) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout)) // httptest.ResponseRecorder does not support it
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.log.Debug("answer on the control socket", "error", err) // the client has closed the connection
	}
}
