// Package picture draws a machine as it is built and whose its CPUs are: packages,
// dies, NUMA nodes, L3 caches, cores and threads as boxes in boxes, as SVG. It draws
// what `cpupoold status -o json` prints, and needs nothing else.
//
// # Way of the data
//
// Status → [Group] (tree.go: which CPUs share what) → layout (layout.go: where each box
// goes) → SVG (svg.go). All of it is computation: the same status gives the same bytes.
//
// Colours tell pools and owners, and never alone: each CPU carries its number, each
// owner's CPUs carry the number that the legend has for it, and each CPU says in words
// what it is (title and aria-label).
package picture
