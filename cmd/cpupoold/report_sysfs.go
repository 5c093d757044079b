package main

import (
	"io/fs"
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/report"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

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
