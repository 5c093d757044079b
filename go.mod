module github.com/cpupoold/cpupoold

go 1.26
