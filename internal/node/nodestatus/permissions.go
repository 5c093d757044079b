package nodestatus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// PermissionsFile is the name, in the state directory, of what is known of namespaces.
const PermissionsFile = "namespaces.json"

// permissionsVersion is raised when an older daemon could misread the file. One that
// finds another version goes without the file, and replaces it when it can.
const permissionsVersion = 1

// maxPermissions bounds the file: that many namespaces are no cluster's.
const maxPermissions = 16 << 20

// permissionsFile is the file; the checksum is over the bytes of Namespaces.
type permissionsFile struct {
	Version int    `json:"version"`
	SHA256  string `json:"sha256"`
	// Annotation is the name of the one that has been read: after a change of
	// annotationDomain the file says nothing.
	Annotation string          `json:"annotation"`
	Namespaces json.RawMessage `json:"namespaces"`
}

// ReadPermissions reads what namespaces have allowed, as annotations of these names
// said. They are empty, without an error, where there is no file.
func ReadPermissions(file string, names workload.Names) (workload.Permissions, error) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	fail := func(err error) (workload.Permissions, error) {
		return nil, fmt.Errorf("what namespaces allow, in %s, is not known: %w", file, err)
	}
	if err != nil {
		return fail(err)
	}
	if info.Size() > maxPermissions {
		return fail(fmt.Errorf("%d bytes long; the limit is %d", info.Size(), maxPermissions))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return fail(err)
	}
	var f permissionsFile
	if err := json.Unmarshal(data, &f); err != nil {
		return fail(err)
	}
	if f.Version != permissionsVersion {
		return fail(fmt.Errorf("version %d, this daemon reads %d", f.Version, permissionsVersion))
	}
	if f.SHA256 != checksum(f.Namespaces) {
		return fail(errors.New("checksum does not match"))
	}
	if key := names.AllowedKey(); f.Annotation != key {
		return fail(fmt.Errorf("it is of the annotation %q, not %s", f.Annotation, key))
	}
	var p workload.Permissions
	if err := json.Unmarshal(f.Namespaces, &p); err != nil {
		return fail(err)
	}
	return p, nil
}

// writePermissions replaces the file in one step.
func writePermissions(file string, names workload.Names, p workload.Permissions) error {
	namespaces := encode(p)
	data := encode(permissionsFile{permissionsVersion, checksum(namespaces), names.AllowedKey(), namespaces})
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("create state directory: %w", err)
	}
	if err := renameio.WriteFile(file, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

func checksum(data []byte) string {
	sum := sha256.Sum256(bytes.TrimSpace(data))
	return hex.EncodeToString(sum[:])
}
