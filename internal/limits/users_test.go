package limits

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// local is a connection between two sockets of this host.
type local struct{ net.Conn }

func (local) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (local) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }

// TestKernelWithoutDiagnosticsIsAskedOnce checks that the kernel gets no more requests after it
// did not find the listening socket, and gets more if only the client's socket is closed.
func TestKernelWithoutDiagnosticsIsAskedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		listening error // of asking for the listening socket
		asked     int
	}{
		"no tcp_diag":     {unix.ENOENT, 2},
		"no sock_diag":    {unix.EPROTONOSUPPORT, 2},
		"a closed socket": {nil, 4},
	} {
		asked := 0
		u := &users{socket: func(_, remote netip.AddrPort) (diagAnswer, error) {
			asked++
			if remote.Port() == 0 {
				return diagAnswer{}, c.listening
			}
			return diagAnswer{}, unix.ENOENT
		}}
		for range 2 {
			if got := u.peer(local{}); got != "unknown user" {
				t.Errorf("%s: %q; want %q", name, got, "unknown user")
			}
		}
		if asked != c.asked {
			t.Errorf("%s: the kernel was asked %d times; want %d", name, asked, c.asked)
		}
	}
}

// TestListeningSocketIsFound checks that the kernel knows a listening socket by the address of a
// connection, and does not know one that does not exist.
func TestListeningSocketIsFound(t *testing.T) {
	for listen, at := range map[string]string{"127.0.0.1:0": "127.0.0.1", ":0": "127.0.0.1"} {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		to := netip.AddrPortFrom(netip.MustParseAddr(at), endpoint(l.Addr()).Port())
		remote := netip.AddrPortFrom(anyAddress(to.Addr()), 0)
		if _, err := socketOf(to, remote); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
		_ = l.Close()
		if _, err := socketOf(to, remote); err == nil {
			t.Errorf("%s: a closed socket was found", listen)
		}
	}
}
