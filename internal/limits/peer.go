package limits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Address returns the IP address of a connection's client, and of IPv6 the first 64 bits: a
// host may have all addresses of such a network.
func Address(c net.Conn) string {
	ip := endpoint(c.RemoteAddr()).Addr()
	if ip.Is6() {
		if p, err := ip.WithZone("").Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}

// Root is the peer of root's processes on this host.
const Root = "user 0"

// Users returns a function that returns the user of a connection's client on this host. For a
// client elsewhere it returns the Address. A client that has closed its socket has no user; all of
// these are one peer. If the kernel does not answer, all clients of the host are that peer: it may
// be without the module tcp_diag, or refuse the request.
func Users() func(net.Conn) string {
	return (&users{socket: socketOf}).peer
}

// users asks the kernel for the users of sockets.
type users struct {
	socket  func(local, remote netip.AddrPort) (diagAnswer, error)
	lacking atomic.Bool // the kernel has no tcp_diag
}

func (u *users) peer(c net.Conn) string {
	const unknown = "unknown user"
	from, to := endpoint(c.RemoteAddr()), endpoint(c.LocalAddr())
	if from.Addr() != to.Addr() && !from.Addr().IsLoopback() {
		return Address(c)
	}
	if u.lacking.Load() {
		return unknown
	}
	answer, err := u.socket(from, to)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPROTONOSUPPORT) {
		// The socket is closed, or the kernel has no tcp_diag and has started modprobe for it. It would
		// do so for each connection. The listening socket exists while connections are accepted.
		_, err := u.socket(to, netip.AddrPortFrom(anyAddress(to.Addr()), 0))
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPROTONOSUPPORT) {
			u.lacking.Store(true)
		}
		return unknown
	}
	if err != nil || answer.State != established {
		return unknown
	}
	return "user " + strconv.FormatUint(uint64(answer.UID), 10)
}

// anyAddress returns the unspecified address of the same family.
func anyAddress(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// endpoint returns address and port. IPv4 addresses have four bytes.
func endpoint(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// Constants and structures of linux/sock_diag.h and linux/inet_diag.h.
const (
	sockDiagByFamily = 20
	established      = 1 // TCP_ESTABLISHED
)

type socketID struct {
	SourcePort, DestinationPort [2]byte // big endian
	Source, Destination         [16]byte
	Interface                   uint32
	Cookie                      uint64
}

type diagRequest struct {
	Header                          unix.NlMsghdr
	Family, Protocol, Extensions, _ uint8
	States                          uint32
	ID                              socketID
}

type diagAnswer struct {
	Header                          unix.NlMsghdr
	Family, State, Timer, Retrans   uint8
	ID                              socketID
	Expires, Received, Sent, UID, _ uint32
}

// socketOf returns the state and the user of a socket on this host. The kernel looks up one socket,
// which takes microseconds. The error ENOENT means that the socket does not exist, or that the
// kernel has no tcp_diag.
//
// SocketGet of vishvananda/netlink 1.3.1 asks with NLM_F_DUMP: the kernel then walks the table of
// all connections of the host.
func socketOf(local, remote netip.AddrPort) (answer diagAnswer, err error) {
	request := diagRequest{
		Header:   unix.NlMsghdr{Type: sockDiagByFamily, Flags: unix.NLM_F_REQUEST},
		Family:   unix.AF_INET,
		Protocol: unix.IPPROTO_TCP,
		States:   ^uint32(0),                   // all
		ID:       socketID{Cookie: ^uint64(0)}, // INET_DIAG_NOCOOKIE
	}
	if local.Addr().Is6() {
		request.Family = unix.AF_INET6
	}
	request.Header.Len = uint32(binary.Size(request))
	binary.BigEndian.PutUint16(request.ID.SourcePort[:], local.Port())
	binary.BigEndian.PutUint16(request.ID.DestinationPort[:], remote.Port())
	copy(request.ID.Source[:], local.Addr().AsSlice())
	copy(request.ID.Destination[:], remote.Addr().AsSlice())
	message, err := binary.Append(nil, binary.NativeEndian, request)
	if err != nil {
		return answer, fmt.Errorf("encode request: %w", err)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return answer, fmt.Errorf("open socket for diagnostics: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return answer, fmt.Errorf("ask for socket: %w", err)
	}
	var buffer [1024]byte
	if _, _, err := unix.Recvfrom(fd, buffer[:], unix.MSG_DONTWAIT); err != nil { // the kernel answers within sendto
		return answer, fmt.Errorf("read socket: %w", err)
	}
	if _, err := binary.Decode(buffer[:], binary.NativeEndian, &answer); err != nil {
		return answer, fmt.Errorf("decode socket: %w", err)
	}
	switch answer.Header.Type {
	case sockDiagByFamily:
		return answer, nil
	case unix.NLMSG_ERROR: // its number is after the header, and negative
		number := int32(binary.NativeEndian.Uint32(buffer[unix.NLMSG_HDRLEN:]))
		return answer, fmt.Errorf("find socket: %w", unix.Errno(-number))
	default:
		return answer, fmt.Errorf("find socket: answer of type %d", answer.Header.Type)
	}
}
