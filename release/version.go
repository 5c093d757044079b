package main

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// version is a version of Semantic Versioning, without a "v". Formats that do not take such a
// version get another text for it; nfpm translates the version for deb and rpm.
type version struct{ *semver.Version }

func parseVersion(text string) (version, error) {
	v, err := semver.StrictNewVersion(strings.TrimPrefix(text, "v"))
	if err != nil {
		return version{}, fmt.Errorf("parse version %q: %w; want MAJOR.MINOR.PATCH", text, err)
	}
	return version{v}, nil
}

// tag returns the version as Git tags, Go modules and krew have it.
func (v version) tag() string { return "v" + v.String() }

// ociTag returns the version as a tag of an image or a chart. A tag has no "+"; helm replaces
// it in the same way.
func (v version) ociTag() string { return strings.ReplaceAll(v.String(), "+", "_") }

// chooseVersion returns the given version, or the version in the tag of the commit. A given version
// must be one of the tags, if there are any.
func chooseVersion(given string, tags []string) (version, error) {
	var tagged []version
	for _, t := range tags {
		v, err := parseVersion(t)
		if err != nil {
			return version{}, err
		}
		tagged = append(tagged, v)
	}
	if given == "" {
		if len(tagged) != 1 {
			return version{}, fmt.Errorf("the commit has %d tags vMAJOR.MINOR.PATCH; want one, or name the version (VERSION=0.1.0)", len(tagged))
		}
		return tagged[0], nil
	}
	v, err := parseVersion(given)
	if err != nil {
		return version{}, err
	}
	for _, t := range tagged {
		if t.String() == v.String() {
			return v, nil
		}
	}
	if len(tagged) > 0 {
		return version{}, fmt.Errorf("version %s was given, but the commit has the tag %s", v, strings.Join(tags, ", "))
	}
	return v, nil
}

// deb returns the version of a package of Debian, as nfpm writes it: a pre-release is older than
// its release.
func (v version) deb() string {
	text := fmt.Sprintf("%d.%d.%d", v.Major(), v.Minor(), v.Patch())
	if v.Prerelease() != "" {
		text += "~" + v.Prerelease()
	}
	if v.Metadata() != "" {
		text += "+" + v.Metadata()
	}
	return text
}
