package nodestatus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cpupoold/cpupoold/internal/node/durable"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// PermissionsFile is the file in the state directory with the permissions of namespaces.
const PermissionsFile = "namespaces.json"

// permissionsVersion increases when an older daemon could misread the file. A daemon ignores
// another version, and replaces the file after it has listed the namespaces.
const permissionsVersion = 1

// maxPermissions is the maximum size of the file in bytes.
const maxPermissions = 16 << 20

// permissionsFile is the content of the file. The checksum covers the bytes of Namespaces.
type permissionsFile struct {
	Version int    `json:"version"`
	SHA256  string `json:"sha256"`
	// Annotation is the key of the annotation. Another annotationDomain makes the file invalid.
	Annotation string          `json:"annotation"`
	Namespaces json.RawMessage `json:"namespaces"`
}

// ReadPermissions reads a file with this annotation key. A missing file returns no permissions.
func ReadPermissions(file string, names workload.Names) (workload.Permissions, error) {
	fail := func(err error) (workload.Permissions, error) {
		return nil, fmt.Errorf("read permissions of namespaces from %s: %w", file, err)
	}
	data, err := durable.Read(file, maxPermissions)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
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
		return fail(fmt.Errorf("file is for annotation %q, want %q", f.Annotation, key))
	}
	var p workload.Permissions
	if err := json.Unmarshal(f.Namespaces, &p); err != nil {
		return fail(err)
	}
	return p, nil
}

// writePermissions replaces the file atomically and durably.
func writePermissions(file string, names workload.Names, p workload.Permissions) error {
	namespaces := encode(p)
	data := encode(permissionsFile{permissionsVersion, checksum(namespaces), names.AllowedKey(), namespaces})
	if err := durable.Write(file, append(data, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

func checksum(data []byte) string {
	sum := sha256.Sum256(bytes.TrimSpace(data))
	return hex.EncodeToString(sum[:])
}
