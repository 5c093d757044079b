// Package livedaemon tests the live audit of the daemon on a node (build tag "guest").
package livedaemon
