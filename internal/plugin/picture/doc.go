// Package picture draws a machine and the owners of its CPUs as SVG: packages, dies,
// NUMA nodes, L3 caches, cores and threads are nested boxes. Its only input is the
// output of `cpupoold status -o json`.
//
// # Data flow
//
// Status → [Group] (tree.go: parts of the machine) → layout (layout.go: places of boxes)
// → SVG (svg.go). The package is pure: the same status gives the same bytes.
//
// Colours show pools and owners, but no fact depends on colour. Each CPU shows its
// number and the number of its owner in the legend. Its title and aria-label
// describe it in words.
package picture
