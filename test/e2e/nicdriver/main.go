// Command nicdriver is a DRA driver of network interfaces that do not exist. It runs on a node of test/e2e, where claims request an
// interface and CPUs of one NUMA node. It uses the same library as cpupool-dra.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// driverName is the name of the driver, and the vendor of its CDI devices.
const driverName = "nic.example.com"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "nicdriver:", err)
		os.Exit(1)
	}
}

// run serves the kubelet until ctx is done.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("nicdriver", flag.ContinueOnError)
	node := flags.String("node-name", "", "`name` of the node")
	kubeconfig := flags.String("kubeconfig", "", "`file` with the address of the API server")
	numa := flags.String("numa-nodes", "1", "`list` of NUMA nodes: eth0 is on the first one, eth1 on the second one")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("parse command line: %w", err)
	}
	devices, err := interfaces(*numa)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read %s: %w", *kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	dir := kubeletplugin.KubeletPluginsDir + "/" + driverName
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make the directory of the socket: %w", err)
	}
	helper, err := kubeletplugin.Start(ctx, driver{}, kubeletplugin.DriverName(driverName), kubeletplugin.NodeName(*node),
		kubeletplugin.KubeClient(client), kubeletplugin.HealthService(false))
	if err != nil {
		return fmt.Errorf("start the plugin: %w", err)
	}
	defer helper.Stop()
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{{Devices: devices}}}
	if err := helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{*node: pool}}); err != nil {
		return fmt.Errorf("publish the interfaces: %w", err)
	}
	<-ctx.Done()
	return nil
}

// interfaces returns a device for each NUMA node of a list.
func interfaces(list string) ([]resourcev1.Device, error) {
	var all []resourcev1.Device
	for i, text := range strings.Split(list, ",") {
		node, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("parse NUMA nodes %q: %w", list, err)
		}
		all = append(all, resourcev1.Device{
			Name:       "eth" + strconv.Itoa(i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"resource.kubernetes.io/numaNode": {IntValue: &node}},
		})
	}
	return all, nil
}
