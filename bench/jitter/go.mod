// Measures jitter on machines of users. A module of its own, so that bench's tools stay out of it.
module github.com/cpupoold/cpupoold/bench/jitter

go 1.26.0

require (
	github.com/cpupoold/cpupoold v0.0.0
	golang.org/x/sys v0.49.0
)

require github.com/google/go-cmp v0.7.0

replace github.com/cpupoold/cpupoold => ../..
