package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// materials writes a bill of materials for each program, in CycloneDX's format, from the build
// information that Go writes into the program.
func (r *release) materials() error {
	licences := map[string]string{}
	for _, m := range r.modules {
		licences[m.name] = m.licence
	}
	for _, p := range all() {
		bom, err := r.bill(p, licences)
		if err != nil {
			return fmt.Errorf("%s for %s: %w", p.name, p.platform(), err)
		}
		var b bytes.Buffer
		encoder := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true)
		if err := encoder.EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
			return err
		}
		name := strings.Join([]string{p.name, r.version.String(), p.os, p.arch}, "_") + ".cdx.json"
		if err := writeFile(filepath.Join(r.out, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// bill returns the bill of materials of a program. It has neither a serial number nor the time
// of its making: it is the same for the same program.
func (r *release) bill(p program, licences map[string]string) (*cdx.BOM, error) {
	file := r.built(p.platform(), p.file())
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	main := component(cdx.ComponentTypeApplication, info.Main.Path, r.version.tag(), "Apache-2.0")
	main.Name, main.Version = p.name, r.version.String()
	main.PackageURL += "#cmd/" + p.name
	main.BOMRef = main.PackageURL
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(data))}}
	main.Properties = &[]cdx.Property{{Name: "goos", Value: p.os}, {Name: "goarch", Value: p.arch}, {Name: "vcs.revision", Value: r.commit}}

	components := []cdx.Component{component(cdx.ComponentTypeLibrary, "std", info.GoVersion, licences["std@"+info.GoVersion])}
	for _, m := range info.Deps {
		if m.Replace != nil {
			return nil, fmt.Errorf("module %s is replaced, which the bill of materials cannot state; remove the replacement", m.Path)
		}
		name := m.Path + "@" + m.Version
		if licences[name] == "" {
			return nil, fmt.Errorf("module %s has no licence in the list", name)
		}
		components = append(components, component(cdx.ComponentTypeLibrary, m.Path, m.Version, licences[name]))
	}
	var references []string
	for _, c := range components {
		references = append(references, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &references}}
	return bom, nil
}

func component(kind cdx.ComponentType, path, version, licence string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cdx.Component{
		Type: kind, BOMRef: url, Name: path, Version: version, PackageURL: url,
		Licenses: &cdx.Licenses{{Expression: licence}},
	}
}
