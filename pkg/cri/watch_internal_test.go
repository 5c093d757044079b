package cri

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// script is a runtime's stream that sends events and then ends with err, after
// a time; or, without err, lasts.
type script struct {
	open   error
	events int
	lasts  time.Duration
	err    error
}

type scripted struct {
	script
	ctx context.Context
}

func (s *scripted) Recv() (*runtime.ContainerEventResponse, error) {
	if s.events > 0 {
		s.events--
		return &runtime.ContainerEventResponse{ContainerId: "c"}, nil
	}
	var end <-chan time.Time
	if s.err != nil {
		end = time.After(s.lasts)
	}
	select {
	case <-end:
		return nil, s.err
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// The pauses of Watch are too long for a test in real time.
func TestWatchTimes(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection refused")
	type state struct {
		s        StreamState
		from, to time.Duration // after the start, give or take the jitter
	}
	for _, tt := range []struct {
		name    string
		scripts []script // the last one repeats
		run     time.Duration
		want    []state
		opens   [2]int // least, most
		events  int
	}{
		{"lasts", []script{{events: 3}}, time.Hour, []state{{Connected, settle, settle}}, [2]int{1, 1}, 3},
		{
			"ends at once", []script{{err: io.EOF}}, 10*time.Minute + time.Second,
			[]state{{Unsupported, 0, 0}},
			[2]int{11, 11}, 0,
		},
		{
			"switched on later", []script{{err: io.EOF}, {err: io.EOF}, {}}, time.Hour,
			[]state{{Unsupported, 0, 0}, {Connected, 2*retryUnsupported + settle, 2*retryUnsupported + settle}},
			[2]int{3, 3}, 0,
		},
		{
			"ends after a while", []script{{lasts: time.Minute, err: io.EOF}, {}}, time.Hour,
			[]state{
				{Connected, settle, settle},
				{Lost, time.Minute, time.Minute},
				{Connected, time.Minute + settle, time.Minute + settle + 2*retryFirst},
			},
			[2]int{2, 2}, 0,
		},
		{
			// It had something to say, so it is not switched off.
			"ends at once after an event", []script{{events: 1, err: io.EOF}, {}}, time.Hour,
			[]state{{Lost, 0, 0}, {Connected, settle, settle + 2*retryFirst}},
			[2]int{2, 2}, 1,
		},
		{
			"not there", []script{{open: lost}}, time.Hour,
			[]state{{Lost, 0, 0}},
			[2]int{240, 720}, 0, // one in 10 s, give or take half
		},
		{
			"breaks again and again", []script{{lasts: time.Second, err: lost}}, 10*time.Second - time.Millisecond,
			[]state{
				{Connected, settle, settle},
				{Lost, time.Second, time.Second},
			},
			[2]int{7, 9}, 0, // the pause does not grow: each attempt got through
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), tt.run)
				defer cancel()
				opens, events := 0, 0
				open := func(ctx context.Context) (eventStream, error) {
					s := tt.scripts[min(opens, len(tt.scripts)-1)]
					opens++
					if s.open != nil {
						return nil, s.open
					}
					return &scripted{s, ctx}, nil
				}
				var got []StreamState
				err := watch(ctx, Handler{
					Event: func(Event) { events++ },
					Stream: func(s StreamState, err error) {
						if n := len(got); n < len(tt.want) {
							want, after := tt.want[n], time.Since(start)
							if s != want.s || after < want.from || after > want.to {
								t.Errorf("%v after %v (%v); want %v after %v to %v", s, after, err, want.s, want.from, want.to)
							}
						}
						got = append(got, s)
					},
				}, open)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("watch() = %v; want its context's error", err)
				}
				if len(got) < len(tt.want) {
					t.Errorf("states %v; want %v", got, tt.want)
				}
				if opens < tt.opens[0] || opens > tt.opens[1] {
					t.Errorf("%d streams opened; want %d to %d", opens, tt.opens[0], tt.opens[1])
				}
				if events != tt.events {
					t.Errorf("%d events; want %d", events, tt.events)
				}
			})
		})
	}
}
