// Package limits bounds what the clients of an HTTP/1.1 server hold: connections, and the memory
// of bodies. It has no global state.
//
// At a limit, a server accepts the new client, and closes a connection of another one: the oldest
// connection of the peer that holds most. A client that holds many connections loses its own, and
// a client with few keeps them. Limits.Peer decides whether a peer is an address or a user of the
// host.
//
// netutil.LimitListener stops to accept at its limit: a client that stalls then locks out the API
// server or the kubelet. A server that closes the oldest connection of all does the same to a
// client that is slower than the flood. A semaphore for bodies is held by bodies that stall.
package limits
