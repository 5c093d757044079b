// Holds cpupoold's packages against others', and its figures against the record. A module of its own, so that the product's
// go.mod stays lean.
module github.com/cpupoold/cpupoold/bench

go 1.26.0

replace github.com/cpupoold/cpupoold => ../

tool golang.org/x/perf/cmd/benchstat

require (
	github.com/cpupoold/cpupoold v0.0.0
	github.com/prometheus/procfs v0.23.0
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da
	k8s.io/utils v0.0.0-20260707023825-cf1189d6abe3
)

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
