package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// MoveFunc makes one move, and returns when it is verified, refused, or ctx is
// done.
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
// Other errors have an HTTP status of 400 or above and the body {"error": "…"}.
type Server struct {
	http.Handler
	inside *inside
	log    *slog.Logger
}

// Limits of the socket. It is root's alone: they are for a client that hangs or runs
// wild, which must not cost the node more than it shows.
const (
	maxConnections = 32
	headerTime     = 5 * time.Second  // for a request's header
	bodyTime       = 5 * time.Second  // for the body after it
	answerTime     = 15 * time.Second // to take an answer
	maxHeader      = 16 << 10         // bytes
)

// New returns a server. It calls move for one move at a time. Each has patience to
// be verified.
func New(move MoveFunc, patience time.Duration, in Inside, log *slog.Logger) *Server {
	mux := http.NewServeMux()
	s := &Server{http.MaxBytesHandler(mux, maxBody), newInside(in), log}
	m := &moves{Server: s, move: move, wait: patience}
	mux.HandleFunc("POST /v1/moves", m.serve)
	mux.HandleFunc("GET /v1/status", s.ask(s.inside.status))
	mux.HandleFunc("GET /v1/events", s.ask(s.inside.events))
	mux.HandleFunc("GET /v1/explain", s.ask(s.inside.explain))
	return s
}

// Serve listens on a socket and answers until ctx is done. It lets requests in
// progress finish for a moment; their context is that of the request and of ctx.
// What was left of an earlier socket of that name is replaced: the caller holds
// the node's lock.
func (s *Server) Serve(ctx context.Context, socket string) error {
	const grace = 2 * time.Second
	l, remove, err := listen(ctx, socket)
	if err != nil {
		return err
	}
	defer remove()
	srv := &http.Server{
		Handler:           s.until(ctx),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		stopped <- srv.Shutdown(patience)
	})
	if err := srv.Serve(netutil.LimitListener(l, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serve %s: %w", socket, err)
	}
	if err := <-stopped; err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop serving %s: %w", socket, err)
	}
	return nil
}

// until ends the context of each request when ctx ends.
func (s *Server) until(ctx context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		both, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		s.ServeHTTP(w, r.WithContext(both))
	})
}

// moves answers POST /v1/moves.
type moves struct {
	*Server
	move MoveFunc
	wait time.Duration
	one  sync.Mutex // held by the request that is being worked on
}

func (s *moves) serve(w http.ResponseWriter, r *http.Request) {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyTime)) // a recorder of tests has none
	body, err := io.ReadAll(r.Body)
	_ = conn.SetReadDeadline(time.Time{}) // it would end the context of the moves
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
	if !s.one.TryLock() {
		s.answer(w, http.StatusConflict, failure{"somebody else is having owners moved at the moment; try again, with a new report"})
		return
	}
	defer s.one.Unlock()
	s.answer(w, http.StatusOK, s.all(r.Context(), moves))
}

// all makes moves until one is not done: those after it may rely on it.
func (s *moves) all(ctx context.Context, moves []Move) []Result {
	results := make([]Result, len(moves))
	done := true
	for i, m := range moves {
		results[i] = Result{Move: m, Outcome: Skipped, Detail: "a move before it was not done"}
		if done {
			results[i].Outcome, results[i].Detail = s.try(ctx, m)
			done = results[i].Outcome == Done
		}
	}
	return results
}

func (s *moves) try(ctx context.Context, m Move) (Outcome, string) {
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	outcome, err := s.move(ctx, m)
	if err != nil {
		return outcome, err.Error()
	}
	return outcome, ""
}

// failure is the answer to what could not be begun.
type failure struct {
	Error string `json:"error"`
}

func (s *Server) answer(w http.ResponseWriter, status int, v any) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime)) // a recorder of tests has none
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.log.Debug("answer on the control socket", "error", err) // who asked has gone
	}
}
