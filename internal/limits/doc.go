// Package limits bounds what the clients of an HTTP/1.1 server hold: connections, and the memory
// of bodies and unread answers. It has no global state.
//
// At a limit, a server accepts the new client, and closes a connection of the peer with the most
// connections. A peer that opens many loses its own, and a peer with few keeps them. A connection
// without a complete request is closed before one with a request in work. Limits.Peer decides
// whether a peer is an address or a user of the host.
//
// netutil.LimitListener stops to accept at its limit: a client that stalls then locks out the API
// server or the kubelet. If a server closes the oldest connection of all, a client that is slower
// than the flood loses its connection. A semaphore for bodies is held by bodies that stall.
package limits
