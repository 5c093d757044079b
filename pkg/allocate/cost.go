package allocate

// cost orders the choices: the lower one at the first difference is better.
type cost [12]int32

// The places in a cost. The options decide which places have priority; see order.
const (
	costParts = iota
	costNodes
	costPackages
	costL3s
	costFarNodes    // touched nodes without CPUs of the owner and its companions.
	costFarPackages // likewise.
	costFarL3s      // likewise.
	costDistance    // over all pairs of nodes, in both directions.
	costBroken      // whole cores that are taken in part.
	costLeft        // usable CPUs of the touched cells that are not taken.
	costLeftL3      // likewise of the touched caches
)

// sequence is the order in which the first places count. With align-by-socket the
// hinted nodes come first in their packages.
func (q *search) sequence() [5]uint8 {
	switch {
	case q.spread && !q.byPackage:
		return [...]uint8{costNodes, costParts, costPackages, costL3s, costFarNodes}
	case q.spread:
		return [...]uint8{costPackages, costParts, costNodes, costL3s, costFarNodes}
	case q.cachesFirst && q.byPackage:
		return [...]uint8{costParts, costPackages, costL3s, costNodes, costFarNodes}
	case q.cachesFirst:
		return [...]uint8{costParts, costL3s, costNodes, costPackages, costFarNodes}
	case q.byPackage && q.hintedNodes != nil:
		return [...]uint8{costParts, costPackages, costFarNodes, costNodes, costL3s}
	case q.byPackage:
		return [...]uint8{costParts, costPackages, costNodes, costL3s, costFarNodes}
	}
	return [...]uint8{costParts, costNodes, costPackages, costL3s, costFarNodes}
}

func (q *search) less(a, b *cost) bool {
	for _, i := range &q.order {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	for i := costFarPackages; i < len(a); i++ {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// consider compares the cells with the best so far. It chooses the best caches in them.
// parts and broken are the results of cover for the CPUs of sum, the tally of all cells. Among
// equals the first remains, which has the lowest numbers.
func (q *search) consider(cells []int32, sum tally, parts, broken int) {
	var c cost
	c[costParts] = int32(parts)
	q.costOfCells(cells, &c)
	c[costLeft] = sum[0] - int32(q.n)
	if q.found {
		// The caches can only add to this cost; their cost replaces it.
		c[costL3s] = max(1, q.baseL3s, q.fewestL3s)
		c[costFarL3s] = max(0, c[costL3s]-q.nearL3s)
		if !q.spread {
			c[costBroken] = int32(broken)
		}
		if !q.less(&c, &q.best.cost) {
			return
		}
	}
	q.outbid = false
	q.caches.choose(q, cells, sum, parts, &c)
	if q.found && !q.less(&c, &q.best.cost) {
		return
	}
	q.found = true
	q.best.cost = c
	q.best.leaves = q.caches.appendLeaves(q, cells, q.best.leaves[:0])
}

// costOfCells counts nodes and packages, including the owner's.
func (q *search) costOfCells(cells []int32, c *cost) {
	c[costNodes], c[costPackages] = q.baseNodes, q.basePackages
	for i, a := range cells {
		at := &q.m.cells[a]
		newNode, newPackage := !q.inNode[at.node], !q.inPackage[at.pkg]
		for _, b := range cells[:i] {
			other := &q.m.cells[b]
			newNode = newNode && other.node != at.node
			newPackage = newPackage && other.pkg != at.pkg
		}
		if newNode {
			c[costNodes]++
			c[costFarNodes] += toInt(!q.nearNode[at.node])
			c[costDistance] += q.distance(cells[:i], at.node)
		}
		if newPackage {
			c[costPackages]++
			c[costFarPackages] += toInt(!q.nearPackage[at.pkg])
		}
	}
}

// distance is the distance from a new node to the nodes of the owner and of cells.
func (q *search) distance(cells []int32, node int32) int32 {
	sum := int32(0)
	for i, b := range cells {
		other := q.m.cells[b].node
		seen := q.inNode[other]
		for _, c := range cells[:i] {
			seen = seen || q.m.cells[c].node == other
		}
		if !seen {
			sum += q.m.distance(node, other)
		}
	}
	if q.baseNodes > 0 {
		for other, in := range q.inNode {
			if in {
				sum += q.m.distance(node, int32(other))
			}
		}
	}
	return sum
}

func toInt(b bool) int32 {
	if b {
		return 1
	}
	return 0
}
