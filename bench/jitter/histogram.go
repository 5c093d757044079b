package main

import (
	"math/bits"
	"time"
)

// subBuckets is the number of parts of a power of two: values are right to an eighth.
const subBuckets = 8

// histogram counts gaps between two looks at the clock. The zero value is empty.
type histogram struct {
	counts [64 * subBuckets]uint64
	n      uint64
	max    uint64 // nanoseconds
	sum    uint64
}

// add is called in the loop that measures: it allocates nothing and calls nothing.
func (h *histogram) add(ns uint64) {
	h.counts[bucketOf(ns)]++
	h.n++
	h.sum += ns
	if ns > h.max {
		h.max = ns
	}
}

// bucketOf is the bucket of a value: those below subBuckets have one each.
func bucketOf(ns uint64) int {
	if ns < subBuckets {
		return int(ns)
	}
	exponent := bits.Len64(ns) - 1 // 3 at least
	return (exponent-2)*subBuckets + int(ns>>(exponent-3))&(subBuckets-1)
}

// ceilingOf is the greatest value of a bucket.
func ceilingOf(bucket int) uint64 {
	if bucket < subBuckets {
		return uint64(bucket)
	}
	exponent, sub := bucket/subBuckets+2, uint64(bucket%subBuckets)
	return (subBuckets+sub+1)<<(exponent-3) - 1
}

// quantile is the value that so great a part of all gaps does not exceed.
func (h *histogram) quantile(part float64) time.Duration {
	want, seen := uint64(part*float64(h.n)), uint64(0)
	for i, n := range h.counts {
		if seen += n; seen > want || seen == h.n && n > 0 {
			return time.Duration(min(ceilingOf(i), h.max))
		}
	}
	return time.Duration(h.max)
}

// above counts the gaps that are certainly longer than a limit, and their time.
func (h *histogram) above(limit time.Duration) (n uint64) {
	for i := bucketOf(uint64(limit)) + 1; i < len(h.counts); i++ {
		n += h.counts[i]
	}
	return n
}
