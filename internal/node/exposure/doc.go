// Package exposure measures the time and the CPU time of containers outside their pool before
// their first placement. Meter owns the times since which cgroups exist, the starts without an
// answer of systemd, and the histograms. The event loop reports cgroups that appear and
// disappear, readings before the first write, and the end of each pass. Meter is not safe for
// concurrent use.
package exposure
