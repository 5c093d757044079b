// Package jitter has bench/jitter measure on a node, and looks at what it counts.
package jitter
