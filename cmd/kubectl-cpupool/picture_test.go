package main

import (
	"bytes"
	"os"
	"testing"
)

// TestPicture checks that simulate and serve make the README's picture of the files
// next to it.
func TestPicture(t *testing.T) {
	const dir = "../../docs/pictures/"
	var plan, complaints bytes.Buffer
	args := []string{"simulate", "--topology", "2s8c2t", "-f", dir + "pods.yaml", "--config", dir + "cpupoold.yaml", "-o", "json"}
	if code := execute(streams{nil, &plan, &complaints}, args); code != exitOK {
		t.Fatalf("exit %d: %s; want %d", code, complaints.String(), exitOK)
	}
	var svg bytes.Buffer
	if code := execute(streams{&plan, &svg, &complaints}, []string{"serve", "-f", "-", "--svg", "-"}); code != exitOK {
		t.Fatalf("exit %d: %s; want %d", code, complaints.String(), exitOK)
	}
	if *update {
		if err := os.WriteFile(dir+"node.svg", svg.Bytes(), 0o644); err != nil { //nolint:gosec // to be read by all
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(dir + "node.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(svg.Bytes(), want) {
		t.Errorf("%snode.svg differs from the drawing; make docs, and look at it", dir)
	}
}

// TestFresh checks that simulate without --config uses the pools that a fresh installation
// has.
func TestFresh(t *testing.T) {
	shipped, err := os.ReadFile("../../systemd/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(shipped, fresh) {
		t.Error("fresh.yaml differs from systemd/config.yaml; copy it")
	}
}
