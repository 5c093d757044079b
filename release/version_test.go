package main

import (
	"strings"
	"testing"

	"github.com/goreleaser/nfpm/v2"
)

// TestVersion checks the texts of a version in all formats. nfpm gives the packages their names.
func TestVersion(t *testing.T) {
	for _, c := range []struct{ given, text, tag, ociTag, deb, rpm string }{
		{"v0.1.0", "0.1.0", "v0.1.0", "0.1.0", "0.1.0", "0.1.0"},
		{"0.1.0", "0.1.0", "v0.1.0", "0.1.0", "0.1.0", "0.1.0"},
		{"v1.2.3-rc.1", "1.2.3-rc.1", "v1.2.3-rc.1", "1.2.3-rc.1", "1.2.3~rc.1", "1.2.3~rc.1"},
		{"1.2.3+build.5", "1.2.3+build.5", "v1.2.3+build.5", "1.2.3_build.5", "1.2.3+build.5", "1.2.3+build.5"},
		{"1.2.3-rc.1+build.5", "1.2.3-rc.1+build.5", "v1.2.3-rc.1+build.5", "1.2.3-rc.1_build.5", "1.2.3~rc.1+build.5", "1.2.3~rc.1+build.5"},
	} {
		t.Run(c.given, func(t *testing.T) {
			v, err := parseVersion(c.given)
			if err != nil {
				t.Fatal(err)
			}
			if v.String() != c.text || v.tag() != c.tag || v.ociTag() != c.ociTag || v.deb() != c.deb {
				t.Errorf("got %s, tag %s, OCI tag %s, deb %s; want %+v", v, v.tag(), v.ociTag(), v.deb(), c)
			}
			for format, want := range map[string]string{"deb": "x_" + c.deb + "_amd64.deb", "rpm": "x-" + c.rpm + "-1.x86_64.rpm"} {
				packager, err := nfpm.Get(format)
				if err != nil {
					t.Fatal(err)
				}
				info := nfpm.WithDefaults(&nfpm.Info{Name: "x", Arch: "amd64", Version: v.String(), VersionSchema: "semver"})
				if got := packager.ConventionalFileName(info); got != want {
					t.Errorf("the package is %s; want %s", got, want)
				}
			}
		})
	}
}

func TestChooseVersion(t *testing.T) {
	for name, c := range map[string]struct {
		given string
		tags  []string
		want  string // a version, or a part of the error
	}{
		"tag":                    {"", []string{"v0.1.0"}, "0.1.0"},
		"given":                  {"0.1.0", nil, "0.1.0"},
		"given with v":           {"v0.1.0-rc.1", nil, "0.1.0-rc.1"},
		"given and tag":          {"0.1.0", []string{"v0.1.0"}, "0.1.0"},
		"one of two tags":        {"0.2.0", []string{"v0.1.0", "v0.2.0"}, "0.2.0"},
		"nothing":                {"", nil, "the commit has 0 tags"},
		"two tags":               {"", []string{"v0.1.0", "v0.2.0"}, "the commit has 2 tags"},
		"another tag":            {"0.2.0", []string{"v0.1.0"}, "version 0.2.0 was given, but the commit has the tag v0.1.0"},
		"metadata differs":       {"0.1.0+a", []string{"v0.1.0+b"}, "but the commit has the tag v0.1.0+b"},
		"tag that is no version": {"", []string{"vendor"}, `parse version "vendor"`},
		"short version":          {"1.2", nil, `parse version "1.2"`},
		"leading zero":           {"1.02.3", nil, `parse version "1.02.3"`},
		"word":                   {"latest", nil, "want MAJOR.MINOR.PATCH"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := chooseVersion(c.given, c.tags)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = v.String()
			}
			if err == nil && got != c.want || !strings.Contains(got, c.want) {
				t.Errorf("got %q; want %q", got, c.want)
			}
		})
	}
}
