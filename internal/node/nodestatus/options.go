package nodestatus

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/cpupoold/cpupoold/internal/config"
)

// Environment holds the environment of the process: the node's name and the API server's address.
type Environment struct {
	NodeName, APIHost, APIPort string
	// Version is the version of this program, for the API server's log.
	Version string
}

// OptionsFor returns the options of a Runner, or nil if the daemon has no API server to contact.
func OptionsFor(c *config.Config, env Environment, log *slog.Logger) (*Options, error) {
	n := c.Node
	if n.Enabled == config.NodeOff {
		return nil, nil
	}
	off := func(err error) (*Options, error) {
		if n.Enabled == config.NodeOn || n.Kubeconfig != "" {
			return nil, fmt.Errorf("node: %w", err)
		}
		return nil, nil
	}
	name := cmp.Or(n.Name, env.NodeName)
	if name == "" {
		return off(errors.New("the name of the Node is not known; set node.name or the environment variable NODE_NAME, or node.enabled: false"))
	}
	if n.Enabled == config.NodeAuto && !c.HasRuntime() {
		return nil, nil
	}
	var access *Access
	var err error
	switch {
	case n.Kubeconfig == "":
		access, err = InCluster(env.APIHost, env.APIPort, ServiceAccountDir)
	case n.Enabled == config.NodeOn:
		access, err = Kubeconfig(n.Kubeconfig)
	default: // the kubelet may write its kubeconfig later, when the node joins
		access = KubeconfigLater(n.Kubeconfig)
	}
	if err != nil {
		return off(err)
	}
	return &Options{
		Name: name, Access: access, Version: env.Version, Log: log,
		Record: filepath.Join(c.KubeletStateDir, RecordFile),
		Sys:    os.DirFS("/sys"), Topology: n.Topology,
	}, nil
}

// PermissionsPath returns the path of the file with the permissions of namespaces.
func PermissionsPath(c *config.Config) string { return filepath.Join(c.StateDir, PermissionsFile) }
