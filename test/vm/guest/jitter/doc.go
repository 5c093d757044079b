// Package jitter runs the measurement of bench/jitter on a node, and checks its counts.
package jitter
