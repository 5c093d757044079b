package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of an archive, in bytes before compression.
const (
	MaxFile  = 8 << 20
	MaxTotal = 32 << 20
)

// File is a file of an archive.
type File struct {
	Name string
	Data []byte
}

// IsJSON reports whether the file is one JSON document.
func (f *File) IsJSON() bool { return strings.HasSuffix(f.Name, ".json") }

// Redact replaces names. missing names files that it cannot parse, or that become too long.
func (r *Redactor) Redact(files []File) (out []File, missing []string) {
	for _, f := range files {
		var err error
		switch {
		case f.IsJSON():
			f.Data, err = r.JSON(f.Data)
		case strings.HasSuffix(f.Name, ".jsonl"):
			f.Data = r.Lines(f.Data)
		default:
			f.Data = []byte(r.Text(string(f.Data)))
		}
		if err == nil && len(f.Data) > MaxFile { // replacements can be longer than names
			err = fmt.Errorf("has %d bytes without names; at most %d are allowed", len(f.Data), MaxFile)
		}
		if err != nil {
			missing = append(missing, f.Name+": "+err.Error())
			continue
		}
		out = append(out, f)
	}
	return out, missing
}

// Tail returns the last limit bytes, from the start of a line or at least a character.
func Tail(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return text[i+1:]
	}
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}

// Write writes a .tar.gz with files in dir. Exceeded limits are an error.
func Write(to io.Writer, dir string, files []File, at time.Time) error {
	compressed := gzip.NewWriter(to)
	w := tar.NewWriter(compressed)
	total := 0
	for _, f := range files {
		if total += len(f.Data); len(f.Data) > MaxFile || total > MaxTotal {
			return fmt.Errorf("write %s: %d bytes, %d in all; at most %d and %d are allowed", f.Name, len(f.Data), total, MaxFile, MaxTotal)
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: dir + "/" + f.Name, Mode: 0o600, Size: int64(len(f.Data)), ModTime: at, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("write %s: %w", f.Name, err)
		}
		if _, err := w.Write(f.Data); err != nil {
			return fmt.Errorf("write %s: %w", f.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return compressed.Close()
}
