// Package inventory holds the pods, containers and units of the node as the
// runtime, systemd and NRI report them. Inventory is the state. Its methods accept
// events, listings, answers about single objects and NRI requests in any order.
// Old answers never replace newer ones, and states only go forward.
package inventory
