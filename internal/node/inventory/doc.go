// Package inventory holds the pods, containers and units of the node as the
// runtime, systemd and NRI report them. Inventory has the commands. They accept
// events, listings, answers about single objects and NRI requests in any order.
// Old answers never replace newer ones, and states only go forward. Objects and
// Units have the questions about all objects. Container and Pod have the questions
// about one object, and the facts that other packages note about it.
package inventory
