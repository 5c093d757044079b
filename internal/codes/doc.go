// Package codes describes the codes of cpupoold: of placements, problems, refusals, checks,
// conditions, events and warnings. A code is stable: users filter by it, and its anchor on the
// page docs/reference/problem-codes.md stays.
//
// A test of test/arch compares the entries with the codes of the source. The page is made by
// go test ./internal/codes -update.
package codes
