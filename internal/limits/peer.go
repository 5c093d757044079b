package limits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

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

// User returns the user of a connection's client on this host. For a client elsewhere it
// returns the Address. A client that has closed its socket has no user; all of these are one
// peer. If the kernel does not answer, all clients of the host are that peer: it may be without
// the module tcp_diag, or refuse the request.
func User(c net.Conn) string {
	from, to := endpoint(c.RemoteAddr()), endpoint(c.LocalAddr())
	if from.Addr() != to.Addr() && !from.Addr().IsLoopback() {
		return Address(c)
	}
	uid, err := userOf(from, to)
	if err != nil {
		return "unknown user"
	}
	return "user " + strconv.FormatUint(uint64(uid), 10)
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

// userOf returns the user of a socket on this host. The kernel looks up one socket, which takes
// microseconds. A closed socket has no user, and is an error.
//
// SocketGet of vishvananda/netlink 1.3.1 asks with NLM_F_DUMP: the kernel then walks the table of
// all connections of the host.
func userOf(local, remote netip.AddrPort) (uint32, error) {
	request := diagRequest{
		Header:   unix.NlMsghdr{Type: sockDiagByFamily, Flags: unix.NLM_F_REQUEST},
		Family:   unix.AF_INET,
		Protocol: unix.IPPROTO_TCP,
		States:   1 << established,
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
		return 0, fmt.Errorf("encode request: %w", err)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, fmt.Errorf("open socket for diagnostics: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("ask for socket: %w", err)
	}
	var buffer [1024]byte
	if _, _, err := unix.Recvfrom(fd, buffer[:], unix.MSG_DONTWAIT); err != nil { // the kernel answers within sendto
		return 0, fmt.Errorf("read socket: %w", err)
	}
	var answer diagAnswer
	if _, err := binary.Decode(buffer[:], binary.NativeEndian, &answer); err != nil {
		return 0, fmt.Errorf("decode socket: %w", err)
	}
	if answer.Header.Type != sockDiagByFamily || answer.State != established {
		return 0, errors.New("socket is closed")
	}
	return answer.UID, nil
}
