package limits

import (
	"cmp"
	"slices"
)

// A connLimit holds the connections that share a limit, oldest first. The guard has a lock.
type connLimit struct {
	limit, total int64
	members      []member
	protected    string // a peer whose connections are closed last
}

type member struct {
	*conn
	weight int64
}

// add adds a connection as the youngest. Then it closes connections until the rest is within the
// limit.
func (l *connLimit) add(of *conn, weight int64) {
	l.members = append(l.members, member{of, weight})
	l.total += weight
	for l.total > l.limit {
		v := l.next()
		l.remove(v.conn)
		v.abort()
	}
}

// next returns the connection to close: of the peer with the most connections, the oldest one
// without a request in work. Requests in work do not count up to a quarter of the limit: an API
// server with many reviews in work is not the peer with the most connections. Above it they count.
// Otherwise a peer with only requests in work would close the connections of all others.
func (l *connLimit) next() member {
	type load struct{ all, working int64 }
	peers := map[string]load{}
	for _, m := range l.members {
		p := peers[m.peer]
		if p.all += m.weight; m.working {
			p.working += m.weight
		}
		peers[m.peer] = p
	}
	return slices.MinFunc(l.members, func(a, b member) int { // the oldest of equal ones
		p, q := peers[a.peer], peers[b.peer]
		return cmp.Or(
			first(a.peer != l.protected, b.peer != l.protected),
			cmp.Compare(q.all-min(q.working, l.limit/4), p.all-min(p.working, l.limit/4)),
			first(!a.working, !b.working),
		)
	})
}

// first returns the order of two members: one for which a condition holds is before another one.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// remove removes a connection. It reports whether the connection was a member.
func (l *connLimit) remove(of *conn) bool {
	i := slices.IndexFunc(l.members, func(m member) bool { return m.conn == of })
	if i < 0 {
		return false
	}
	l.total -= l.members[i].weight
	l.members = slices.Delete(l.members, i, i+1)
	return true
}
