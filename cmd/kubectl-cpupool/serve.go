package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/picture"
	"github.com/cpupoold/cpupoold/internal/plugin/viewer"
)

const serveHelp = `Shows a node in a browser: the machine as it is built, whose each CPU is, what runs
where and why. It is drawn from what the daemon tells, and nothing can be changed:

  cpupoold status -o json > edge-1.json         # on the node
  kubectl cpupool serve -f edge-1.json          # anywhere; open the address that it prints

A file is read again when it changes. From the standard input come as many states as
there are, so that a node can be watched:

  ssh edge-1 cpupoold status -o json --watch | kubectl cpupool serve -f -

In a cluster where the daemon is a pod, it is asked there, as kubectl exec does:

  kubectl cpupool serve --node edge-1

Who is chosen in the page is then explained there, too, as cpupoold explain does it.

A report of cpupoold report (.tar.gz) holds a status and explanations, too; a status alone
has none, and the page says how to get one. --svg writes the drawing of the status to a
file, - for the standard output, and ends.

It listens on the loopback address alone, and has no password: who can open a
connection to an address given with --listen sees the names of your pods.`

// serveOptions are the flags of serve.
type serveOptions struct {
	clusterFlags
	daemonFlags
	file   string
	node   string
	listen string
	svg    string
}

func serveCommand(s streams) *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		Use:   "serve {-f FILE | --node NODE}",
		Short: "show a node's CPUs in a browser, or draw them (--svg)",
		Long:  serveHelp,
		Args:  flagsOnly(o.check),
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "filename", "f", "", "`FILE` with a status (cpupoold status -o json) or a report (.tar.gz); - for states on the standard input")
	flags.StringVar(&o.node, "node", "", "`NODE` of the cluster whose daemon to ask")
	o.addConfig(flags, ", with --node")
	o.daemonFlags.add(flags)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8480", "`ADDRESS` to serve on; port 0 takes a free one")
	flags.StringVar(&o.svg, "svg", "", "draw to `FILE` (- for the standard output) instead of serving")
	return cmd
}

func (o *serveOptions) check() error {
	switch {
	case o.file == "" && o.node == "":
		return errors.New("no status; name a file with -f, - for the standard input, or a node of the cluster with --node")
	case o.file != "" && o.node != "":
		return errors.New("-f and --node: give one of them")
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
	feed := viewer.NewFeed()
	server, err := viewer.New(feed, hostsOf(l.Addr(), o.listen)...)
	if err != nil {
		return err
	}
	switch {
	case o.node != "":
		all, err := o.daemons(ctx, o.daemonFlags)
		if err != nil {
			return errors.Join(err, l.Close())
		}
		server.Explains(func(ctx context.Context, c *inspect.Container) (*inspect.Explanation, error) {
			now, err := o.daemons(ctx, o.daemonFlags) // it may be another pod's by now
			if err != nil {
				return nil, err
			}
			return now.explain(ctx, o.node, c)
		})
		go followAlways(ctx, all, func() (*daemons, error) { return o.daemons(ctx, o.daemonFlags) }, o.node, feed)
	case o.file == "-":
		go func() { feed.End(ended(feed.Follow(s.in))) }()
	default:
		if _, err := o.read(); err != nil {
			return errors.Join(err, l.Close())
		}
		if archived(o.file) {
			server.Explains(func(_ context.Context, c *inspect.Container) (*inspect.Explanation, error) {
				return explainedInReport(o.file, c)
			})
		}
		go feed.FollowFile(ctx, o.read, time.Second)
	}
	fmt.Fprintf(s.out, "http://%s/\n", l.Addr())
	return server.Serve(l)
}

// ended says that the standard input has.
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

// draw writes the picture.
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

// once reads one status.
func (o *serveOptions) once(ctx context.Context, s streams) (*inspect.Status, error) {
	switch {
	case o.node != "":
		all, err := o.daemons(ctx, o.daemonFlags)
		if err != nil {
			return nil, err
		}
		return all.status(ctx, o.node)
	case o.file == "-":
		status, err := viewer.Read(s.in)
		return status, named("standard input", err)
	}
	return o.read()
}

func named(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// read reads the file.
func (o *serveOptions) read() (*inspect.Status, error) {
	f, err := os.Open(o.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if archived(o.file) {
		status, err := statusInReport(f)
		return status, named(o.file, err)
	}
	status, err := viewer.Read(f)
	return status, named(o.file, err)
}
