package hostenv

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
)

// Environment is what the process is told of the cluster that it runs in: by its pod's
// manifest the node's name, and by the kubelet the API server's address.
type Environment struct {
	NodeName, APIHost, APIPort string
}

// ClusterOptions are those of the Runner, nil where the cluster is not to be talked to.
func ClusterOptions(o Options) (*nodestatus.Options, error) {
	n := o.Config.Node
	if n.Enabled == config.NodeOff {
		return nil, nil
	}
	off := func(err error) (*nodestatus.Options, error) {
		if n.Enabled == config.NodeOn || n.Kubeconfig != "" {
			return nil, fmt.Errorf("node: %w", err)
		}
		return nil, nil
	}
	name := cmp.Or(n.Name, o.Environment.NodeName)
	if name == "" {
		return off(errors.New("the name of the Node is not known; set node.name or the environment variable NODE_NAME, or node.enabled: false"))
	}
	if n.Enabled == config.NodeAuto && !o.Config.HasRuntime() {
		return nil, nil
	}
	var access *nodestatus.Access
	var err error
	switch {
	case n.Kubeconfig == "":
		access, err = nodestatus.InCluster(o.Environment.APIHost, o.Environment.APIPort, nodestatus.ServiceAccountDir)
	case n.Enabled == config.NodeOn:
		access, err = nodestatus.Kubeconfig(n.Kubeconfig)
	default: // pools do not depend on it, and the kubelet writes its own when the node joins
		access = nodestatus.KubeconfigLater(n.Kubeconfig)
	}
	if err != nil {
		return off(err)
	}
	return &nodestatus.Options{
		Name: name, Access: access, Version: o.Build.Version, Log: o.Log,
		Record: filepath.Join(o.Config.KubeletStateDir, nodestatus.RecordFile),
		Sys:    os.DirFS(SysRoot), Topology: n.Topology,
	}, nil
}
