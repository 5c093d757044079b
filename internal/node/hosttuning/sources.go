package hosttuning

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/power"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Names of tune's files. The file with the originals survives a reboot, the mark does not.
const (
	undoName = "host.json"
	markName = "host.mark"
)

// Restoring returns the settings of this machine and the file with their original values, for a
// restore. Owners can have the exclusive CPUs. The host is one of the sources. All sources are
// returned with any configuration, because an earlier one may have changed settings of each.
func Restoring(c *config.Config, m tune.Machine, exclusive cpuset.Set) (r tune.Restoring, host *power.Host, err error) {
	bootID, err := kernelfs.BootID()
	if err != nil {
		return r, nil, err
	}
	undo := tune.Undo{File: filepath.Join(c.StateDir, undoName), Mark: filepath.Join(c.RunDir, markName), BootID: bootID}
	proc, err := tune.OpenDir(kernelfs.ProcRoot)
	if err != nil {
		return r, nil, fmt.Errorf("open %s: %w", kernelfs.ProcRoot, err)
	}
	sys, err := tune.OpenDir(kernelfs.SysRoot)
	if err != nil {
		return r, nil, fmt.Errorf("open %s: %w", kernelfs.SysRoot, err)
	}
	interfaces, etc := sys, os.DirFS("/etc")
	if inContainer("net") { // this process sees other network interfaces
		if interfaces, err = tune.OpenDir(kernelfs.ProcRoot + "/1/root/sys"); err != nil {
			interfaces = missing(errors.New("receive queues of the host: " + err.Error() + "; run the daemon in the host's network namespace (hostNetwork: true)"))
		}
	}
	if inContainer("mnt") {
		etc = os.DirFS(kernelfs.ProcRoot + "/1/root/etc")
	}
	host = power.NewHost(sys)
	sources := []tune.Source{
		tune.DefaultAffinityOf(proc, m), tune.NewBalancer(proc, sys, etc, m), tune.IRQs(proc, sys), tune.ReceiveQueues(interfaces, m),
		tune.WorkqueueOf(sys, m), tune.KThreads(proc, sys, tune.SetAffinity), host,
	}
	return tune.Restoring{Sources: sources, Undo: undo, Machine: m, Exclusive: exclusive}, host, nil
}

// missing returns a directory whose use returns the error: some nodes do not need it.
func missing(err error) tune.Dir {
	return tune.Dir{FS: missingFS{err}, WriteFile: func(string, string) error { return err }}
}

type missingFS struct{ err error }

func (m missingFS) Open(string) (fs.File, error) { return nil, m.err }

// inContainer compares a namespace with the first process's; false without permission.
func inContainer(kind string) bool {
	own, err := os.Readlink(kernelfs.ProcRoot + "/self/ns/" + kind)
	if err != nil {
		return false
	}
	first, err := os.Readlink(kernelfs.ProcRoot + "/1/ns/" + kind)
	return err == nil && first != own
}
