// Package version reports the release and the commit from which a program was built.
package version

import (
	"fmt"
	"runtime/debug"
)

// release is the version with a "v", for example v0.1.0. The linker sets it for release files. It is empty in
// other builds.
var release string //nolint:gochecknoglobals // the linker can set only variables

// Build holds the versions from which a program was built. Unknown values are "unknown".
type Build struct {
	Version  string `json:"version"`  // of the release, or the pseudo-version that Go derives from the commit
	Revision string `json:"revision"` // commit, with the suffix -dirty if the build had uncommitted changes
	Go       string `json:"go"`       // release of Go
}

// Read returns the versions of this program.
func Read() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return read(info, release)
}

func read(info *debug.BuildInfo, release string) Build {
	b := Build{Version: "unknown", Revision: "unknown", Go: "unknown"}
	if info.GoVersion != "" {
		b.Version, b.Go = info.Main.Version, info.GoVersion
	}
	if release != "" {
		b.Version = release
	}
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	b.Revision += dirty
	return b
}

// String returns the text that follows the name of the program in the output of --version.
func (b Build) String() string {
	return fmt.Sprintf("%s, commit %s, %s", b.Version, b.Revision, b.Go)
}
