package limits

import "slices"

// A crowd holds the connections that share a limit, oldest first. The guard has a lock.
type crowd struct {
	limit, total int64
	members      []member
}

type member struct {
	*conn
	weight int64
}

// add adds a connection as the youngest. Then it closes connections until the rest is within the
// limit: always the oldest one of the peer that holds most. Of peers that hold the same, it takes
// the peer with the oldest connection.
func (c *crowd) add(of *conn, weight int64) {
	c.members = append(c.members, member{of, weight})
	c.total += weight
	for c.total > c.limit {
		peers := map[string]int64{}
		for _, m := range c.members {
			peers[m.peer] += m.weight
		}
		v := c.members[0]
		for _, m := range c.members {
			if peers[m.peer] > peers[v.peer] {
				v = m
			}
		}
		c.remove(v.conn)
		v.abort()
	}
}

// remove removes a connection. It reports whether the connection was in the crowd.
func (c *crowd) remove(of *conn) bool {
	i := slices.IndexFunc(c.members, func(m member) bool { return m.conn == of })
	if i < 0 {
		return false
	}
	c.total -= c.members[i].weight
	c.members = slices.Delete(c.members, i, i+1)
	return true
}
