package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/report"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// reportTime is the maximum time of the parts of a report, which run at the same time. The
// longest part asks the daemon three questions.
const reportTime = 3 * queryTimeout

// grace is the time in which a part returns its files after the end of its context.
const grace = 2 * time.Second

// part is a part of a report that waits for one program or reads one place.
type part struct {
	name   string // of its files
	gather func(context.Context, *reported)
}

// run returns the files of a part. A part that ignores the end of ctx costs only its own files.
func (p part) run(ctx context.Context, at time.Time) *reported {
	gathered, late := make(chan *reported, 1), make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		<-time.After(grace)
		close(late)
	})()
	go func() {
		r := &reported{at: at}
		p.gather(ctx, r)
		gathered <- r
	}()
	select {
	case r := <-gathered:
		return r
	case <-late:
		return &reported{missing: []string{fmt.Sprintf("%s: it did not end within %s", p.name, reportTime)}}
	}
}

// gather runs parts at the same time, and adds their files in the order of the parts.
func (r *reported) gather(ctx context.Context, parts ...part) {
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	all := make([]*reported, len(parts))
	var running sync.WaitGroup
	for i, p := range parts {
		running.Go(func() { all[i] = p.run(ctx, r.at) })
	}
	running.Wait()
	for _, p := range all {
		r.missing = append(r.missing, p.missing...)
		r.names = append(r.names, p.names...)
		for _, f := range p.files {
			r.add(f.Name, f.Data)
		}
	}
}

func (a *app) report() *cobra.Command {
	c := &cobra.Command{
		Use:   "report",
		Short: "Write one archive for a bug report",
		Long: `Report writes a compressed archive (.tar.gz) for the analysis of a problem of this
node. It contains versions, the topology of the machine, the tree of cgroups with the files
about CPUs, and the state and the history of the daemon. It also contains the reason for each
placement, the configuration, the findings of check, and the daemon's log from the journal.
MISSING.txt and the standard error name the missing parts, for example if the daemon does not
answer. Report writes all other parts.

--redact replaces the names of namespaces, pods, containers, units, images and of the host,
each by the same word in all files. It replaces only names that the report knows. So read the
archive before you publish it: docs/troubleshooting/report-a-problem.md.`,
		Args: cobra.NoArgs,
	}
	file := c.Flags().StringP("output", "o", "", "`file` to write, - for the standard output (default cpupoold-report-<host>-<time>.tar.gz)")
	redact := c.Flags().Bool("redact", false, "replace the names of namespaces, pods, containers, units, images and the host")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return a.doReport(c.Context(), thisHost(), *file, *redact)
	}
	return c
}

// doReport gathers and writes a report. If ctx ends, it writes nothing.
func (a *app) doReport(ctx context.Context, m machine, file string, redact bool) error {
	defer a.announce("cpupoold: gathering the report")()
	r := a.gatherReport(ctx, m)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("write no report: %w", err)
	}
	return r.write(a, file, redact)
}

// write writes the archive to a file that does not exist yet, or to the standard output.
func (r *reported) write(a *app, file string, redact bool) error {
	host := r.host
	if redact {
		r.redact()
		host = "node"
	}
	for _, m := range r.missing {
		_, _ = fmt.Fprintln(a.err, "cpupoold: missing in the report: "+layout.Printable(m))
	}
	dir := "cpupoold-report-" + cmp.Or(host, "node") + "-" + r.at.Format("20060102T150405Z")
	if file == "-" {
		return report.Write(a.out, dir, r.all(), r.at)
	}
	file = cmp.Or(file, dir+".tar.gz")
	to, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already; name another file with -o", file)
	}
	if err != nil {
		return err
	}
	err = report.Write(to, dir, r.all(), r.at)
	if err == nil {
		err = to.Sync()
	}
	if err := errors.Join(err, to.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", file, err), os.Remove(file))
	}
	_, err = fmt.Fprintln(a.out, file)
	return err
}

// topology adds the topology and the files of sysfs that it was read from. The files let others
// read the machine again (cpupoold topology --sysfs), also if the topology cannot be read here.
func (r *reported) topology(root fs.FS) {
	const name = "topology.json"
	sys, err := fs.Sub(root, "sys")
	if err != nil {
		r.lack(name, err)
		return
	}
	read := recorder{FS: sys, content: make(map[string][]byte)}
	if t, err := topology.Read(read); err != nil {
		r.lack(name, err)
	} else {
		r.json(name, t)
	}
	size := 0
	for _, data := range read.content {
		size += len(data)
	}
	if r.size+size > report.MaxTotal-spare {
		r.lackSize("sys", size)
		return
	}
	for _, file := range slices.Sorted(maps.Keys(read.content)) {
		r.add("sys/"+file, read.content[file])
	}
}

// recorder is a file system that keeps the content of the files that are read.
type recorder struct {
	fs.FS

	content map[string][]byte
}

// Open implements fs.FS.
func (r recorder) Open(name string) (fs.File, error) {
	f, err := r.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return f, err
	}
	r.content[name] = nil
	return recordedFile{f, r, name}, nil
}

type recordedFile struct {
	fs.File

	to   recorder
	name string
}

// Read implements fs.File.
func (f recordedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.to.content[f.name] = append(f.to.content[f.name], p[:n]...)
	return n, err
}
