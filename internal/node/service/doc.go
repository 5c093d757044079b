// Package service makes the daemon a service of its node. Lock excludes another
// daemon and a restore. A Notifier reports to the service manager, systemd, that
// the daemon is ready and that its event loop is alive.
package service
