package cpuclaim_test

import (
	"fmt"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/cpupoold/cpupoold/internal/cpuclaim"
)

// classes are DeviceClasses by name, with their selectors.
func classes(name string) (cpuclaim.Class, bool) {
	selectors, known := map[string][]string{
		"mine":         {`device.driver == "cpu.cpupoold.io"`},
		"second":       {`device.attributes["cpu.cpupoold.io"].socket == 0`, `device.driver == 'cpu.cpupoold.io'`},
		"term":         {`device.attributes["cpu.cpupoold.io"].socket == 0 && ('cpu.cpupoold.io' == device.driver)`},
		"attribute":    {`device.attributes["cpu.cpupoold.io"].socket == 0`},
		"not":          {`device.driver != "cpu.cpupoold.io"`},
		"negated":      {`! (device.attributes["a"].b == 0 && device.driver == "cpu.cpupoold.io")`},
		"either":       {`device.driver == "cpu.cpupoold.io" || device.driver == "nic.example.com"`},
		"conditional":  {`true ? false : device.driver == "cpu.cpupoold.io"`},
		"nic":          {`device.driver == "nic.example.com"`},
		"nic or so":    {`device.driver == "nic.example.com"`, `device.attributes["cpu.cpupoold.io"].socket == 0`},
		"gpu":          {`device.attributes["gpu.example.com"].type == "gpu"`},
		"escaped":      {`device.driver == "cpu.cpupoold.io\""`},
		"unterminated": {`device.driver == "`},
		"all":          nil,
	}[name]
	c := &resourcev1.DeviceClass{}
	c.Name = name
	for _, s := range selectors {
		c.Spec.Selectors = append(c.Spec.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: s}})
	}
	c.Spec.Selectors = append(c.Spec.Selectors, make([]resourcev1.DeviceSelector, len(selectors))...) // of a later Kubernetes
	return cpuclaim.ClassOf(c), known
}

// TestUseOf checks which claims are for CPUs, by their classes, selectors and capacities.
func TestUseOf(t *testing.T) {
	const mine, nic = "exactly: {deviceClassName: exclusive-cpus.cpupoold.io}", "exactly: {deviceClassName: nic}"
	exactly := func(class, more string) string { return "exactly: {deviceClassName: " + class + more + "}" }
	first := func(alternatives ...string) string {
		var all []string
		for i, a := range alternatives {
			all = append(all, fmt.Sprintf("{name: a%d, deviceClassName: %s}", i, a))
		}
		return "firstAvailable: [" + strings.Join(all, ", ") + "]"
	}
	for name, c := range map[string]struct {
		requests []string
		of       string
		want     cpuclaim.Use
	}{
		"our class":                    {[]string{mine}, "", cpuclaim.CPUs},
		"another class of the driver":  {[]string{exactly("mine", "")}, "", cpuclaim.CPUs},
		"two selectors":                {[]string{exactly("second", "")}, "", cpuclaim.CPUs},
		"a term":                       {[]string{exactly("term", "")}, "", cpuclaim.CPUs},
		"an attribute":                 {[]string{exactly("attribute", "")}, "", cpuclaim.Unclear},
		"not the driver":               {[]string{exactly("not", "")}, "", cpuclaim.Unclear},
		"negated":                      {[]string{exactly("negated", "")}, "", cpuclaim.Unclear},
		"one of two drivers":           {[]string{exactly("either", "")}, "", cpuclaim.Unclear},
		"a condition":                  {[]string{exactly("conditional", "")}, "", cpuclaim.Unclear},
		"escaped":                      {[]string{exactly("escaped", "")}, "", cpuclaim.Unclear},
		"no text":                      {[]string{exactly("unterminated", "")}, "", cpuclaim.Other},
		"all devices":                  {[]string{exactly("all", "")}, "", cpuclaim.Unclear},
		"another driver":               {[]string{nic}, "", cpuclaim.Other},
		"another driver and attribute": {[]string{exactly("'nic or so'", "")}, "", cpuclaim.Other},
		"no driver":                    {[]string{exactly("gpu", "")}, "", cpuclaim.Other},
		"unknown class":                {[]string{exactly("later", "")}, "", cpuclaim.Unknown},
		"no request":                   {nil, "", cpuclaim.Other},

		"the request selects the driver":         {[]string{exactly("all", `, selectors: [{cel: {expression: 'device.driver == "cpu.cpupoold.io"'}}]`)}, "", cpuclaim.CPUs},
		"the request selects another driver":     {[]string{exactly("all", `, selectors: [{cel: {expression: 'device.driver == "nic"'}}]`)}, "", cpuclaim.Other},
		"another driver of an unknown class":     {[]string{exactly("later", `, selectors: [{cel: {expression: 'device.driver == "nic"'}}]`)}, "", cpuclaim.Other},
		"the request selects an attribute":       {[]string{exactly("gpu", `, selectors: [{cel: {expression: 'device.attributes["cpu.cpupoold.io"].socket == 0'}}]`)}, "", cpuclaim.Unclear},
		"an attribute of another driver's class": {[]string{exactly("nic", `, selectors: [{cel: {expression: 'device.attributes["cpu.cpupoold.io"].socket == 0'}}]`)}, "", cpuclaim.Other},
		"our capacity":                           {[]string{exactly("all", `, capacity: {requests: {cpu.cpupoold.io/cpus: "4"}}`)}, "", cpuclaim.CPUs},
		"another capacity":                       {[]string{exactly("all", `, capacity: {requests: {memory: "4"}}`)}, "", cpuclaim.Unclear},
		"administration":                         {[]string{exactly("mine", `, adminAccess: true`)}, "", cpuclaim.Other},
		"no administration":                      {[]string{exactly("mine", `, adminAccess: false`)}, "", cpuclaim.CPUs},
		"all of a node":                          {[]string{exactly("mine", `, allocationMode: All`)}, "", cpuclaim.CPUs},

		"NIC and CPUs":             {[]string{nic, mine}, "", cpuclaim.CPUs},
		"the CPUs of both":         {[]string{nic, mine}, "r1", cpuclaim.CPUs},
		"the NIC of both":          {[]string{nic, mine}, "r0", cpuclaim.Other},
		"no such request":          {[]string{nic, mine}, "r2", cpuclaim.Other},
		"unknown and CPUs":         {[]string{exactly("later", ""), mine}, "", cpuclaim.CPUs},
		"unknown and unclear":      {[]string{exactly("later", ""), exactly("all", "")}, "", cpuclaim.Unknown},
		"alternatives of CPUs":     {[]string{first("exclusive-cpus.cpupoold.io", "mine")}, "", cpuclaim.CPUs},
		"alternatives of others":   {[]string{first("nic", "gpu")}, "r0", cpuclaim.Other},
		"CPUs or a NIC":            {[]string{first("mine", "nic")}, "", cpuclaim.Unclear},
		"a NIC, or else CPUs":      {[]string{first("nic", "mine", "mine")}, "", cpuclaim.Unclear},
		"CPUs or an unknown class": {[]string{first("mine", "later", "mine")}, "", cpuclaim.Unknown},
		"CPUs, or all devices":     {[]string{first("mine", "all")}, "", cpuclaim.Unclear},
		"either, and CPUs besides": {[]string{first("mine", "nic"), mine}, "", cpuclaim.CPUs},
	} {
		text := "devices: {requests: ["
		for i, r := range c.requests {
			text += fmt.Sprintf("{name: r%d, %s},", i, r)
		}
		var spec resourcev1.ResourceClaimSpec
		if err := yaml.UnmarshalStrict([]byte(text+"]}"), &spec); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := cpuclaim.UseOf(cpuclaim.Requests(&spec), c.of, classes); got != c.want {
			t.Errorf("%s: use %d; want %d", name, got, c.want)
		}
	}
}

// TestUseOfResource checks the extended resources of classes.
func TestUseOfResource(t *testing.T) {
	with := func(name, spec string) cpuclaim.Class {
		var c resourcev1.DeviceClass
		if err := yaml.UnmarshalStrict([]byte("metadata: {name: "+name+"}\nspec: "+spec), &c); err != nil {
			t.Fatal(err)
		}
		return cpuclaim.ClassOf(&c)
	}
	const mine, other = `selectors: [{cel: {expression: 'device.driver == "cpu.cpupoold.io"'}}]`, `selectors: [{cel: {expression: 'device.driver == "nic"'}}]`
	all := []cpuclaim.Class{
		with("exclusive-cpus.cpupoold.io", "{extendedResourceName: example.com/all}"),
		with("mine", "{extendedResourceName: example.com/cpus, "+mine+"}"), with("mine-too", "{extendedResourceName: example.com/cpus, "+mine+"}"),
		with("a", "{extendedResourceName: example.com/either, "+mine+"}"), with("b", "{extendedResourceName: example.com/either, "+other+"}"),
		with("nic-1", "{extendedResourceName: example.com/nic, "+other+"}"), with("any", "{extendedResourceName: example.com/any}"), with("none", "{}"),
	}
	of := func(resource string) (found []cpuclaim.Class) {
		for _, c := range all {
			if c.Resource == resource {
				found = append(found, c)
			}
		}
		return found
	}
	for name, want := range map[string]cpuclaim.Use{
		"example.com/all": cpuclaim.CPUs, "example.com/cpus": cpuclaim.CPUs, "example.com/either": cpuclaim.Unclear,
		"example.com/nic": cpuclaim.Other, "example.com/any": cpuclaim.Unclear, "nvidia.com/gpu": cpuclaim.Other, "cpu": cpuclaim.Other, "": cpuclaim.Other,
		resourcev1.ResourceDeviceClassPrefix + "exclusive-cpus.cpupoold.io": cpuclaim.CPUs,
		resourcev1.ResourceDeviceClassPrefix + "mine":                       cpuclaim.CPUs,
		resourcev1.ResourceDeviceClassPrefix + "nic":                        cpuclaim.Other,
		resourcev1.ResourceDeviceClassPrefix + "all":                        cpuclaim.Unclear,
		resourcev1.ResourceDeviceClassPrefix + "later":                      cpuclaim.Unknown,
	} {
		if got := cpuclaim.UseOfResource(name, classes, of); got != want {
			t.Errorf("%q: use %d; want %d", name, got, want)
		}
	}
}
