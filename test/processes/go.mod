// The API server that test/apiserver and test/fleet run, which are modules of their own.
module github.com/cpupoold/cpupoold/test/processes

go 1.26.0
