package topology_test

import (
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/pkg/topology"
)

// FuzzRead changes two files of a machine. Read returns an error or a topology with the
// documented properties for any content.
func FuzzRead(f *testing.F) {
	var machines []*txtar.Archive
	for _, name := range []string{"no-cache", "offline", "memory-nodes", "no-numa", "snc"} {
		machines = append(machines, load(f, filepath.Join("testdata", name+".txtar")))
	}
	for i, archive := range machines {
		for j := 0; j < len(archive.Files); j += 7 {
			other := (j + 3) % len(archive.Files)
			f.Add(uint8(i), uint16(j), archive.Files[other].Data, uint16(other), archive.Files[j].Data)
		}
	}
	f.Add(uint8(0), uint16(0), []byte("0-8191\n"), uint16(1), []byte("(null)\n"))
	f.Fuzz(func(t *testing.T, machine uint8, file1 uint16, content1 []byte, file2 uint16, content2 []byte) {
		archive := machines[int(machine)%len(machines)]
		files := slices.Clone(archive.Files)
		files[int(file1)%len(files)].Data = content1
		files[int(file2)%len(files)].Data = content2
		topo, err := topology.Read(archiveFS(t, &txtar.Archive{Files: files}))
		if err != nil {
			if topo != nil {
				t.Error("Read returned a topology with its error; want nil")
			}
			return
		}
		checkInvariants(t, topo)
	})
}
