package nodestatus

import (
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

// permissionsVersion increases when an older daemon could misread the file. A daemon ignores a
// newer version, and replaces the file after it has listed the namespaces.
const permissionsVersion, formerVersion = 2, 1

// maxPermissions is the maximum size of the file in bytes.
const maxPermissions = 16 << 20

type permissionsFile struct {
	// Annotation is the key of the annotation. Another annotationDomain makes the file invalid.
	Annotation string               `json:"annotation"`
	Namespaces workload.Permissions `json:"namespaces"`
}

// ReadPermissions reads a file with this annotation key. A missing file returns no permissions.
func ReadPermissions(file string, names workload.Names) (workload.Permissions, error) {
	data, err := durable.Read(file, maxPermissions)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var f permissionsFile
	if err == nil {
		f, err = decodePermissions(data)
	}
	if key := names.AllowedKey(); err == nil && f.Annotation != key {
		err = fmt.Errorf("file is for annotation %q, want %q", f.Annotation, key)
	}
	if err != nil {
		return nil, fmt.Errorf("read permissions of namespaces from %s: %w", file, err)
	}
	return f.Namespaces, nil
}

// decodePermissions also reads the former version, which has other fields. No other source has the
// times at which permissions ended: without them, an upgrade would move running pods.
func decodePermissions(data []byte) (f permissionsFile, err error) {
	var former struct {
		Version    int             `json:"version"`
		SHA256     string          `json:"sha256"` // of Namespaces
		Annotation string          `json:"annotation"`
		Namespaces json.RawMessage `json:"namespaces"`
	}
	if json.Unmarshal(data, &former) != nil || former.Version != formerVersion {
		err = durable.Decode(data, permissionsVersion, permissionsVersion, &f)
		return f, err
	}
	if sum := sha256.Sum256(former.Namespaces); hex.EncodeToString(sum[:]) != former.SHA256 {
		return f, errors.New("checksum does not match")
	}
	f.Annotation = former.Annotation
	err = json.Unmarshal(former.Namespaces, &f.Namespaces)
	return f, err
}

// writePermissions replaces the file atomically and durably.
func writePermissions(file string, names workload.Names, p workload.Permissions) error {
	data, err := durable.Encode(permissionsVersion, permissionsFile{names.AllowedKey(), p})
	if err == nil {
		err = durable.Write(file, data)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
