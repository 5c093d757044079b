package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// journalMark is the name of an empty file in runDir, which ends with the boot. Where it
// is, a daemon has kept a journal since the machine booted: one that is missing is lost.
// Where it is not, there never was one, or restore has put back all of it; then what a
// file or a unit holds is its owner's, also if it is what the daemon would write.
const journalMark = "journal.mark"

func leaveMark(runDir string) error {
	if err := os.MkdirAll(runDir, 0o755); err != nil {
		return fmt.Errorf("create run directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(runDir, journalMark), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("mark that there is a journal: %w", err)
	}
	return f.Close()
}

func removeMark(runDir string) error {
	return ignoreMissing(os.Remove(filepath.Join(runDir, journalMark)))
}

// marked counts a mark that cannot be looked for as one that is not there: then nothing
// is presumed.
func marked(runDir string) (bool, error) {
	_, err := os.Stat(filepath.Join(runDir, journalMark))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
