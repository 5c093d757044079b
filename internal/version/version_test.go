package version

import (
	"runtime/debug"
	"testing"
)

func TestRead(t *testing.T) {
	info := func(settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.0.0-2026"}, Settings: settings}
	}
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "abc"}
	for name, c := range map[string]struct {
		info    *debug.BuildInfo
		release string
		want    string
	}{
		"no build information": {&debug.BuildInfo{}, "", "unknown, commit unknown, unknown"},
		"go build":             {info(commit), "", "v0.0.0-2026, commit abc, go1.26.8"},
		"uncommitted changes":  {info(commit, debug.BuildSetting{Key: "vcs.modified", Value: "true"}), "", "v0.0.0-2026, commit abc-dirty, go1.26.8"},
		"no changes":           {info(commit, debug.BuildSetting{Key: "vcs.modified", Value: "false"}), "", "v0.0.0-2026, commit abc, go1.26.8"},
		"release":              {info(commit), "v0.1.0+build.5", "v0.1.0+build.5, commit abc, go1.26.8"},
		"release without Git":  {info(), "v0.1.0", "v0.1.0, commit unknown, go1.26.8"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := read(c.info, c.release).String(); got != c.want {
				t.Errorf("got %q; want %q", got, c.want)
			}
		})
	}
}
