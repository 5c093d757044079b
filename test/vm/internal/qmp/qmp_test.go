package qmp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/test/vm/internal/qmp"
)

// request is the message of a client.
type request struct {
	Execute   string         `json:"execute"`
	Arguments map[string]any `json:"arguments"`
	ID        uint64         `json:"id"`
}

// serve answers as QEMU does: a greeting, then whatever answer says, line by line.
func serve(t *testing.T, answer func(request) string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { server.Close() })
	go func() {
		fmt.Fprintln(server, `{"QMP": {"version": {"qemu": {"micro": 2, "minor": 0, "major": 10}, "package": ""}, "capabilities": ["oob"]}}`)
		lines := bufio.NewScanner(server)
		for lines.Scan() {
			var r request
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Errorf("request %q: %v", lines.Bytes(), err)
				return
			}
			text := answer(r)
			if text == "" {
				server.Close()
				return
			}
			fmt.Fprintln(server, text)
		}
	}()
	return client
}

func TestExecute(t *testing.T) {
	var events []string
	conn := serve(t, func(r request) string {
		switch r.Execute {
		case "qmp_capabilities":
			return fmt.Sprintf(`{"return": {}, "id": %d}`, r.ID)
		case "query-status":
			return fmt.Sprintf(`{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "STOP"}`+"\n"+`{"return": {"status": %q}, "id": %d}`, r.Arguments["echo"], r.ID)
		case "quit":
			return ""
		}
		return fmt.Sprintf(`{"id": %d, "error": {"class": "CommandNotFound", "desc": "The command %s has not been found"}}`, r.ID, r.Execute)
	})
	client, err := qmp.New(t.Context(), conn, func(e qmp.Event) { events = append(events, e.Name) })
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Execute(t.Context(), "query-status", map[string]string{"echo": "running"})
	if err != nil || string(got) != `{"status": "running"}` {
		t.Errorf(`Execute(query-status) = %s, %v; want {"status": "running"}`, got, err)
	}
	if diff := cmp.Diff([]string{"STOP"}, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	_, err = client.Execute(t.Context(), "fly", nil)
	want := qmp.Error{Command: "fly", Class: "CommandNotFound", Desc: "The command fly has not been found"}
	if refusal := new(qmp.Error); !errors.As(err, &refusal) || *refusal != want {
		t.Errorf("Execute(fly) = %v; want %v", err, &want)
	}
	for _, command := range []string{"quit", "query-status"} {
		if _, err := client.Execute(t.Context(), command, nil); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Execute(%s) while QEMU ends = %v; want that the connection ended", command, err)
		}
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}

func TestExecuteIsCancelled(t *testing.T) {
	hangs := make(chan struct{})
	ctx, cancel := context.WithCancelCause(t.Context())
	conn := serve(t, func(r request) string {
		if r.Execute == "stop" {
			cancel(errors.New("too slow"))
			<-hangs
		}
		return fmt.Sprintf(`{"return": {}, "id": %d}`, r.ID)
	})
	client, err := qmp.New(t.Context(), conn, func(qmp.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Execute(ctx, "stop", nil); err == nil || err.Error() != "qmp stop: too slow" {
		t.Errorf("Execute(stop) = %v; want that it was too slow", err)
	}
	// The late answer belongs to no command, and does not confuse the next one.
	close(hangs)
	if _, err := client.Execute(t.Context(), "cont", nil); err != nil {
		t.Errorf("Execute(cont) = %v", err)
	}
}

func TestNewFailsWithoutGreeting(t *testing.T) {
	client, server := net.Pipe()
	server.Close()
	if _, err := qmp.New(t.Context(), client, func(qmp.Event) {}); err == nil {
		t.Error("New on a closed connection = nil; want an error")
	}
}
