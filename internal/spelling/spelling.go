// Package spelling finds the known word that a misspelt word means.
package spelling

import (
	"slices"
	"strings"
)

// longest is the length of the longest word that Near compares: the longest name of Kubernetes.
const longest = 253

// Near returns the known word that a misspelt word is closest to, or "". A word in the wrong case is
// misspelt, too. A known word is not misspelt, and a word with more than a few wrong letters is
// another word.
func Near(word string, known []string) string {
	if slices.Contains(known, word) || len(word) > longest {
		return ""
	}
	best, least := "", min(3, len(word)/3)+1
	lower := strings.ToLower(word)
	for _, k := range known {
		if d := Distance(lower, strings.ToLower(k), least); d < least {
			best, least = k, d
		}
	}
	return best
}

// Distance returns the number of letters to insert, remove, replace or swap to make b of a. It
// returns limit if there are at least as many.
func Distance(a, b string, limit int) int {
	if max(len(a)-len(b), len(b)-len(a)) >= limit {
		return limit
	}
	var before, last []int
	now := make([]int, len(b)+1)
	for j := range now {
		now[j] = j
	}
	for i := range len(a) {
		before, last, now = last, now, make([]int, len(b)+1)
		now[0] = i + 1
		for j := range len(b) {
			if a[i] == b[j] {
				now[j+1] = last[j]
				continue
			}
			now[j+1] = 1 + min(last[j], last[j+1], now[j])
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				now[j+1] = min(now[j+1], before[j-1]+1)
			}
		}
	}
	return min(now[len(b)], limit)
}
