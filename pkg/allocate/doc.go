// Package allocate chooses CPUs for one owner at a time.
//
// It is a function of the machine, the free CPUs and the request. [Machine] is a topology in the
// form that the search needs, made once and shared. [Supply] holds the free CPUs.
// [Supply.Take] takes CPUs out of it, or returns a [Refusal] and leaves it unchanged.
// [Machine.Shape] measures any set of CPUs in the terms that the search minimizes.
//
// The documents docs/explanation/cpu-selection.md (order of preferences) and allocation-rules.md
// (options, topology policies, limits of the search) state the rules.
package allocate
