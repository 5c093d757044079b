//go:build guest

package check_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
)

// fakeRuntime starts a runtime and returns the configuration that names it.
func fakeRuntime(t *testing.T, c testnode.RuntimeConfig) string {
	return "containerRuntimeEndpoint: " + testnode.StartRuntime(t, c).Endpoint() + "\n"
}

// relay listens on a separate socket and passes everything on to another one; change can modify the answers.
func relay(t *testing.T, to string, change func() func([]byte) []byte) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "relay") // not t.TempDir: the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "s")
	ctx, cancel := context.WithCancel(context.Background())
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed at the end of the test
			}
			wg.Go(func() { pass(ctx, client, to, change()) })
		}
	})
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(listener.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
	return socket
}

// pass moves bytes between a client and the socket until either is closed.
func pass(ctx context.Context, client net.Conn, to string, change func([]byte) []byte) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(ctx, "unix", to)
	if err != nil {
		return
	}
	defer server.Close()
	context.AfterFunc(ctx, func() { server.Close() })
	go func() {
		_, _ = io.Copy(server, client) // ends with the connection
		server.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if _, werr := client.Write(change(buffer[:n])); err != nil || werr != nil {
			return
		}
	}
}

func unchanged() func([]byte) []byte { return func(b []byte) []byte { return b } }

func nothing([]byte) []byte { return nil }

// afterLogin keeps D-Bus's authentication (lines that end with \r\n) and changes the messages after that.
func afterLogin(change func([]byte) []byte) func() func([]byte) []byte {
	return func() func([]byte) []byte {
		return func(b []byte) []byte {
			if bytes.HasSuffix(b, []byte("\r\n")) {
				return b
			}
			return change(b)
		}
	}
}

// olderSystemd makes the manager report version 243. The length of a message must not change.
func olderSystemd() func([]byte) []byte {
	return func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("257."), []byte("243.")) }
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Errorf("%s %q: %v: %s", name, args, err, out)
	}
}
