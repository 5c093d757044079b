package allocate

// cover says how n CPUs can be had from t: in parts cores that are taken only in
// part, broken of which were whole. It is false when t has fewer CPUs. It is what
// filler does, without choosing the cores; both are the fewest parts where the
// numbers of threads divide one another (1, 2, 4, 8), as on real machines with
// all their threads online, or with two in a core.
func (t tally) cover(n int) (parts, broken int, ok bool) {
	if t.cpus() < n {
		return 0, 0, false
	}
	threads := len(t) / 2
	wholeLeft := false
	for k := threads; k > 0; k-- {
		cores := min(int(t[k]), n/k)
		n -= cores * k
		wholeLeft = wholeLeft || cores < int(t[k])
	}
	if n == 0 {
		return 0, 0, true
	}
	for k := threads; k >= n; k-- {
		if t[threads+k] > 0 {
			return 1, 0, true
		}
	}
	if wholeLeft {
		return 1, 1, true
	}
	for k := threads; n > 0 && k > 0; k-- {
		cores := min(int(t[threads+k]), (n+k-1)/k)
		n -= cores * k
		parts += cores
	}
	return parts, 0, true
}

// spread says how n CPUs can be had from t on as many cores as possible: doubled
// of them share a core with another one of the owner's, and crowded of them one
// of which somebody else has, or may get, the rest.
func (t tally) spread(n int) (doubled, crowded int, ok bool) {
	if t.cpus() < n {
		return 0, 0, false
	}
	threads := len(t) / 2
	whole, part := 0, 0
	for k := 1; k <= threads; k++ {
		whole += int(t[k])
		part += int(t[threads+k])
	}
	return max(0, n-whole-part), max(0, min(n, whole+part)-whole), true
}
