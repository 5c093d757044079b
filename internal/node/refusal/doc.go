// Package refusal holds the owners that were refused exclusive CPUs. Log owns the current
// refusals, the latest ended ones, their number by code, and the containers that are not
// created. It decides which refused containers must stop; the event loop stops them. It
// is not safe for concurrent use.
package refusal
