package preflight

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

const cgroupRoot = "/sys/fs/cgroup"

type cgroupMount struct {
	fsType string // cgroup2 in a unified hierarchy; empty without a mount
	hybrid bool   // controllers are on v1, a cgroup2 mount exists below
	err    error
}

func (m cgroupMount) isV2() bool { return m.err == nil && m.fsType == "cgroup2" }

// readCgroupMount returns the last mount, which is visible (proc_pid_mountinfo(5)).
func readCgroupMount(root fs.FS) cgroupMount {
	var mounts []*mountinfo.Info
	b, err := readFile(root, "/proc/self/mountinfo")
	if err == nil {
		mounts, err = mountinfo.GetMountsFromReader(bytes.NewReader(b), mountinfo.PrefixFilter(cgroupRoot))
	}
	m := cgroupMount{err: err}
	for _, mount := range mounts {
		if mount.Mountpoint == cgroupRoot {
			// Earlier mounts below are hidden now.
			m = cgroupMount{fsType: mount.FSType}
		} else if mount.FSType == "cgroup2" {
			m.hybrid = true
		}
	}
	return m
}

func checkUnified(e *evidence) {
	if e.mount.isV2() {
		return
	}
	found := fmt.Sprintf("%s is mounted there (cgroup v1), cpupoold needs cgroup v2", e.mount.fsType)
	remedy := "boot with the kernel argument systemd.unified_cgroup_hierarchy=1; in a container mount the host's " + cgroupRoot
	switch {
	case e.mount.err != nil:
		found = fmt.Sprintf("cannot read mounts from /proc/self/mountinfo: %s", cause(e.mount.err))
		remedy = "run as root with /proc mounted"
	case e.mount.hybrid:
		found = "hybrid cgroup hierarchy: the controllers are on cgroup v1, cpupoold needs them on v2"
	case e.mount.fsType == "":
		found = "no cgroup file system is mounted there, cpupoold needs cgroup v2"
	}
	e.add(Refuse, cgroupRoot, found, remedy)
}

func missingControllers(e *evidence, cgroup string) ([]string, error) {
	b, err := readFile(e.root, path.Join(cgroupRoot, cgroup, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	available := strings.Fields(string(b))
	return slices.DeleteFunc([]string{"cpu", "cpuset"}, func(c string) bool { return slices.Contains(available, c) }), nil
}

func checkControllers(e *evidence) {
	const subject = cgroupRoot + "/cgroup.controllers"
	switch lacking, err := missingControllers(e, ""); {
	case err != nil:
		e.add(Refuse, subject, fmt.Sprintf("cannot be read: %s", cause(err)),
			"run as root on the host, or in a privileged container with the host's cgroup namespace")
	case len(lacking) > 0:
		e.add(Refuse, subject, "not available: "+strings.Join(lacking, ", "),
			"remove cgroup_disable= from the kernel arguments, unmount any cgroup v1 hierarchy that holds it, or use a kernel with CONFIG_CPUSETS and CONFIG_FAIR_GROUP_SCHED")
	}
}

// kubepodsDir is a cgroup that contains the pods of a kubelet.
type kubepodsDir struct {
	path   string // below cgroupRoot
	driver cri.Driver
}

// findKubepods searches two levels, because of --cgroup-root (kind: kubelet.slice).
func findKubepods(root fs.FS) []kubepodsDir {
	var found []kubepodsDir
	for _, dir := range directories(root, cgroupRoot) {
		switch dir {
		case "kubepods.slice":
			found = append(found, kubepodsDir{dir, cri.Systemd})
			continue
		case "kubepods":
			found = append(found, kubepodsDir{dir, cri.Cgroupfs})
			continue
		}
		prefix := strings.TrimSuffix(dir, ".slice")
		for _, sub := range directories(root, path.Join(cgroupRoot, dir)) {
			switch {
			case prefix != dir && sub == prefix+"-kubepods.slice":
				found = append(found, kubepodsDir{path.Join(dir, sub), cri.Systemd})
			case sub == "kubepods":
				found = append(found, kubepodsDir{path.Join(dir, sub), cri.Cgroupfs})
			}
		}
	}
	return found
}

// directories returns the names of the directories in dir; none if it cannot be read.
func directories(root fs.FS, dir string) []string {
	entries, err := fs.ReadDir(root, relative(dir))
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
}

func checkKubepodsControllers(e *evidence) {
	// checkControllers reports the controllers that the whole machine lacks.
	unavailable, _ := missingControllers(e, "")
	for _, pods := range e.pods {
		lacking, err := missingControllers(e, pods.path)
		lacking = slices.DeleteFunc(lacking, func(c string) bool { return slices.Contains(unavailable, c) })
		subject := path.Join(cgroupRoot, pods.path, "cgroup.controllers")
		switch {
		case err != nil:
			e.add(Error, subject, fmt.Sprintf("cannot be read: %s", cause(err)), "run as root on the host")
		case len(lacking) > 0:
			e.add(Error, subject, "not enabled for pods: "+strings.Join(lacking, ", "),
				"restart the kubelet, which enables it; with the cgroupfs driver write it to cgroup.subtree_control of the parent")
		}
	}
}

func checkDriver(e *evidence) {
	var others []string
	for _, pods := range e.pods {
		if pods.driver == e.runtime.driver {
			return
		}
		others = append(others, path.Join(cgroupRoot, pods.path))
	}
	e.add(Error, strings.Join(others, ", "),
		fmt.Sprintf("created by a kubelet with cgroup driver %s, but %s uses %s",
			e.pods[0].driver, e.runtime.name, e.runtime.driver),
		"give both the same driver (kubelet: cgroupDriver; containerd: SystemdCgroup; CRI-O: cgroup_manager), systemd where systemd is PID 1, and reboot")
}

// checkUsable reports CPUs of pools that the cgroup root lacks.
func checkUsable(e *evidence) {
	for _, w := range e.withheld {
		f := Finding{Severity: Warning, Subject: cgroupRoot + "/cpuset.cpus.effective", Found: w.Found() + ": no pool has them", Remedy: w.Remedy()}
		if w.By != "" {
			f.Subject = cgroupRoot + "/" + string(w.By)
			if resolvedPools(e) && !w.CPUs.Overlaps(e.pools.Offline.Union(e.pools.Away)) {
				continue
			}
		}
		e.report(f)
	}
}

// cgroupFiles reads the cgroup tree of a host's files. It writes nothing.
type cgroupFiles struct{ root fs.FS }

func (c cgroupFiles) ReadFile(name string, _ int) ([]byte, error) {
	return readFile(c.root, cgroupRoot+"/"+name)
}

func (c cgroupFiles) ReadDir(name string) ([]string, error) {
	return directories(c.root, cgroupRoot+"/"+name), nil
}

func (cgroupFiles) WriteFile(string, string) error { return syscall.EROFS }

func (cgroupFiles) Mkdir(string) error { return syscall.EROFS }

func (cgroupFiles) Rmdir(string) error { return syscall.EROFS }
