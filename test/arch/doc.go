// Package arch tests the rules of ARCHITECTURE.md: imports of packages, purity, writers of
// fields, exported names and methods, lengths of files and comments, and the sizes of packages. It also compares the tables of ARCHITECTURE.md and the rules of .golangci.yml,
// which are for editors, with these rules.
package arch
