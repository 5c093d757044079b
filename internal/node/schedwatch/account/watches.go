package account

// latestWatches is the number of watches of a CPU that [Watches] remembers. A report waits for its reader, and
// the CPU can have further owners until then.
const latestWatches = 8

// Watches holds the latest watches of each CPU, and the ID of the owner of each watch.
type Watches map[int][]watch

type watch struct {
	since uint64
	owner string
}

// Begin adds a watch of a CPU. since is its begin, which identifies it.
func (w Watches) Begin(cpu int, since uint64) {
	all := append(w[cpu], watch{since: since})
	w[cpu] = all[max(0, len(all)-latestWatches):]
}

// Name sets the ID of the owner of the latest watch.
func (w Watches) Name(cpu int, owner string) {
	if all := w[cpu]; len(all) > 0 {
		all[len(all)-1].owner = owner
	}
}

// Owner returns the ID of the owner in a watch. It is empty for a watch that is too old.
func (w Watches) Owner(cpu int, since uint64) string {
	for _, at := range w[cpu] {
		if at.since == since {
			return at.owner
		}
	}
	return ""
}
