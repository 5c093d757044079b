// Package inventory holds the pods, containers and units of the node as the
// runtime and systemd report them. Inventory is the state; its methods accept
// listings, single results and NRI requests in any order, and old answers never
// replace newer ones. List and Fetch ask the runtime and systemd; they run in
// workers and do not touch the state.
package inventory
