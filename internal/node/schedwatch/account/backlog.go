package account

// mostRows bounds the rows of a [Backlog]. The kernel's table has 4,096, and a reading that fails leaves less.
const mostRows = 8192

// Row holds the kernel's counts of tasks. PID and TGID are the numbers of the last one.
type Row struct {
	Time, Switches uint64 // Time is in nanoseconds.
	PID, TGID      uint32
}

// Backlog holds rows that were removed from the kernel and that no reading has returned. The zero value is
// empty.
type Backlog[K comparable] struct {
	rows map[K]Row
	lost uint64
}

// Drain calls batch until it returns the last rows, and returns all rows. batch fills its arguments. After an
// error, the rows so far stay in the Backlog, and the next call of Drain returns them.
func (b *Backlog[K]) Drain(size int, batch func(keys []K, rows []Row) (n int, last bool, err error)) (map[K]Row, error) {
	keys, rows := make([]K, size), make([]Row, size)
	for {
		n, last, err := batch(keys, rows)
		for i := range n {
			b.add(keys[i], rows[i])
		}
		if err != nil {
			return nil, err
		}
		if last {
			all := b.rows
			b.rows = nil
			return all, nil
		}
	}
}

// Lost returns the number of switches in rows that the Backlog had no place for.
func (b *Backlog[K]) Lost() uint64 { return b.lost }

func (b *Backlog[K]) add(key K, r Row) {
	sum, known := b.rows[key]
	if !known && len(b.rows) >= mostRows {
		b.lost += r.Switches
		return
	}
	if b.rows == nil {
		b.rows = make(map[K]Row)
	}
	b.rows[key] = Row{sum.Time + r.Time, sum.Switches + r.Switches, r.PID, r.TGID}
}

// Wrapping is a count of which the kernel keeps 32 bits.
type Wrapping struct {
	last  uint32
	Total uint64
}

// At returns the count with the kernel's present value.
func (w Wrapping) At(now uint32) Wrapping { return Wrapping{now, w.Total + uint64(now-w.last)} }
