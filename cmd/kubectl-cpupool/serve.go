package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/picture"
	"github.com/cpupoold/cpupoold/internal/plugin/viewer"
)

const serveHelp = `Shows nodes in a browser: problems first, then the machine, the owner of each CPU, and the
containers with the reason for their place. The page changes nothing. From a file:

  cpupoold status -o json > edge-1.json         # on the node
  kubectl cpupool serve -f edge-1.json          # anywhere; open the address that it prints

The command reads the file again after each change. The standard input can contain a series
of states. So the page follows a running node:

  ssh edge-1 cpupoold status -o json --watch | kubectl cpupool serve -f -

For a simulation of several nodes, the page has a list of them:

  kubectl cpupool simulate -f cluster.json -o json | kubectl cpupool serve -f -

Without -f, the page has all nodes of the cluster with a daemon in a pod. For the node on the
page, the command queries the daemon, as kubectl exec does, also for explanations:

  kubectl cpupool serve
  kubectl cpupool serve --node edge-1,edge-2

A report (cpupoold report, .tar.gz) contains a status and explanations. A status alone
contains no explanations, and the page states how to get one. --svg writes the drawing of one
node to a file, - for the standard output, and exits.

By default, the command listens only on the loopback address. It has no password: with another
address for --listen, each client that can connect to it sees the names of your pods.`

type serveOptions struct {
	clusterFlags
	daemonFlags
	file   string
	nodes  []string
	listen string
	svg    string
}

func serveCommand(s streams) *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		Use:   "serve [-f FILE] [--node NODE]",
		Short: "Show the CPUs of nodes in a browser, or draw them (--svg)",
		Long:  serveHelp,
		Args:  flagsOnly(o.check),
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "filename", "f", "", "`FILE` with a status (cpupoold status -o json), a simulation or a report (.tar.gz); - for the standard input (default: query the daemons of the cluster)")
	flags.StringSliceVar(&o.nodes, "node", nil, "`NODE` to show; may be repeated (default: all)")
	o.addConfig(flags, ", without -f")
	o.daemonFlags.add(flags)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8480", "`ADDRESS` to serve on; port 0 selects a free port")
	flags.StringVar(&o.svg, "svg", "", "draw to `FILE` (- for the standard output) instead of serving")
	return cmd
}

func (o *serveOptions) check() error {
	if o.svg != "" && o.file == "" && len(o.nodes) != 1 {
		return errors.New("--svg draws one node; name a file with -f, or one node of the cluster with --node")
	}
	if _, _, err := net.SplitHostPort(o.listen); err != nil {
		return fmt.Errorf("--listen %q: is no address with a port; write one like 127.0.0.1:8480", o.listen)
	}
	return nil
}

func (o *serveOptions) run(ctx context.Context, s streams) error {
	if o.svg != "" {
		return o.draw(ctx, s)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; choose another address with --listen", o.listen, err)
	}
	context.AfterFunc(ctx, func() { _ = l.Close() }) // ends Serve
	nodes, explain, err := o.sources(ctx, s)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	server := viewer.New(nodes, hostsOf(l.Addr(), o.listen)...)
	server.Explains(explain)
	fmt.Fprintf(s.out, "http://%s/\n", l.Addr())
	return server.Serve(l)
}

// sources starts to read the nodes, and returns them with their explanations.
func (o *serveOptions) sources(ctx context.Context, s streams) (viewer.Nodes, viewer.Explainer, error) {
	set := viewer.NewSet(o.nodes...)
	switch o.file {
	case "":
		nodes, err := o.clusterNodes(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("%w; -f shows a file instead of a cluster", err)
		}
		return nodes, nodes.explain, nil
	case "-":
		go func() {
			if err := set.Follow(s.in); err != nil {
				set.End(ended(err))
			}
		}()
	default:
		if _, err := o.read(); err != nil {
			return nil, nil, err
		}
		go set.FollowFile(ctx, o.readChanged(), time.Second)
	}
	if archived(o.file) {
		return set, func(_ context.Context, _ string, c *inspect.Container) (*inspect.Explanation, error) {
			return explainedInReport(o.file, c)
		}, nil
	}
	return set, viewer.Unexplained, nil
}

func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("no more states come on the standard input")
	}
	return fmt.Errorf("standard input: %w", err)
}

// hostsOf are the names under which a server may be asked that listens on an address.
func hostsOf(at net.Addr, given string) []string {
	hosts := []string{"localhost"}
	if host, _, err := net.SplitHostPort(given); err == nil && host != "" {
		hosts = append(hosts, host)
	}
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return hosts
	}
	if !tcp.IP.IsUnspecified() {
		return append(hosts, tcp.IP.String())
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return hosts
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok {
			hosts = append(hosts, n.IP.String())
		}
	}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	return hosts
}

func (o *serveOptions) draw(ctx context.Context, s streams) error {
	status, err := o.once(ctx, s)
	if err != nil {
		return err
	}
	svg, err := picture.SVG(status, picture.Options{})
	if err != nil {
		return err
	}
	if o.svg == "-" {
		_, err = s.out.Write(svg)
		return err
	}
	return os.WriteFile(o.svg, svg, 0o644) //nolint:gosec // a picture is for others to see
}

func (o *serveOptions) once(ctx context.Context, s streams) (*inspect.Status, error) {
	var all []viewer.Document
	var err error
	switch o.file {
	case "":
		daemons, err := o.daemons(ctx, o.daemonFlags)
		if err != nil {
			return nil, err
		}
		return daemons.status(ctx, o.nodes[0])
	case "-":
		all, err = viewer.ReadAll(s.in)
		err = named("standard input", err)
	default:
		all, err = o.read()
	}
	if err != nil {
		return nil, err
	}
	all = o.wanted(all)
	if len(all) != 1 {
		return nil, fmt.Errorf("%d nodes to draw; choose one with --node", len(all))
	}
	return &all[0].Status, nil
}

// wanted returns the documents of the nodes that --node names, or all documents without it.
func (o *serveOptions) wanted(all []viewer.Document) []viewer.Document {
	if len(o.nodes) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(d viewer.Document) bool { return !slices.Contains(o.nodes, d.Node) })
}

func named(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// readChanged returns a function that reads the file if its size or time has changed since
// the last success. The file of a large cluster takes seconds to read.
func (o *serveOptions) readChanged() func() ([]viewer.Document, error) {
	var size int64
	var at time.Time
	return func() ([]viewer.Document, error) {
		info, err := os.Stat(o.file)
		if err != nil {
			size = -1
			return nil, err
		}
		if info.Size() == size && info.ModTime().Equal(at) {
			return nil, nil
		}
		all, err := o.read()
		if err != nil {
			size = -1
			return nil, err
		}
		size, at = info.Size(), info.ModTime()
		return all, nil
	}
}

func (o *serveOptions) read() ([]viewer.Document, error) {
	f, err := os.Open(o.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := io.Reader(f)
	if archived(o.file) {
		if in, err = inReport(f, "status.json", "the daemon did not answer when the report was made"); err != nil {
			return nil, named(o.file, err)
		}
	}
	all, err := viewer.ReadAll(in)
	if err != nil {
		return nil, named(o.file, err)
	}
	if all = o.wanted(all); len(all) == 0 {
		return nil, fmt.Errorf("%s: no node has a name of --node", o.file)
	}
	return all, nil
}

// maxReport bounds what a report is unpacked to, in bytes: twice what cpupoold puts into one.
const maxReport = 64 << 20

// archived reports whether a file is a report, and not a status.
func archived(file string) bool {
	return strings.HasSuffix(file, ".gz") || strings.HasSuffix(file, ".tgz")
}

// inReport returns a reader of one file of a report.
func inReport(r io.Reader, name, otherwise string) (io.Reader, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	for t := tar.NewReader(io.LimitReader(z, maxReport)); ; {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("there is no %s in it: %s", name, otherwise)
		case err != nil:
			return nil, err
		case path.Base(h.Name) == name:
			return t, nil
		}
	}
}

func explainedInReport(file string, c *inspect.Container) (*inspect.Explanation, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in, err := inReport(f, "explanations.json", "it is of an older cpupoold, or its MISSING.txt states the reason")
	if err != nil {
		return nil, named(file, err)
	}
	e, err := viewer.ReadExplanation(in)
	if err != nil {
		return nil, named(file, err)
	}
	return viewer.Only(e, c)
}
