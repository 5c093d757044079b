package vm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BuildImages installs what the host lacks, builds the node's software and every image, and makes the snapshot of a node with that
// topology. All that is there already stays; the first time takes minutes. Progress goes to standard error.
func BuildImages(ctx context.Context, topology string) error {
	store, err := openStore()
	if err != nil {
		return err
	}
	for _, script := range []string{"image/prepare.sh", "parts/build.sh"} {
		cmd := exec.CommandContext(ctx, filepath.Join(store.Source, script))
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("run test/vm/%s: %w", script, err)
		}
	}
	if _, err := store.Base(ctx); err != nil {
		return err
	}
	m, err := Boot(ctx, Config{Topology: topology, Node: true})
	if err != nil {
		return err
	}
	return m.Close()
}
