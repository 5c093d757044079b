package main

import _ "unsafe" // for go:linkname

// nanotime is the monotonic clock, without a stack check on the way: at one, Go's
// scheduler takes who has run for 10 ms off the CPU, and that would be measured.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64
