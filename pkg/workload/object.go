package workload

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// maxValue is the maximum length of a parsed value, in bytes. Webhooks write less
// than 64.
const maxValue = 1024

// member is one key of a JSON object. value is what [json.Decoder.Token] gives
// with numbers kept as text: string, json.Number, bool or nil.
type member struct {
	key   string
	value any
}

// parseObject reads one flat JSON object. Unlike [json.Unmarshal] it refuses
// repeated keys, of which different readers take different ones, and keeps keys
// as they are spelled.
func parseObject(s string) ([]member, error) {
	if len(s) > maxValue {
		return nil, errors.New("too long")
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var members []member
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, errors.New("malformed JSON")
		}
		value, err := d.Token()
		if err != nil {
			return nil, errors.New("malformed JSON")
		}
		if _, nested := value.(json.Delim); nested {
			return nil, errors.New("nested JSON")
		}
		for _, m := range members {
			if m.key == key {
				return nil, errors.New("repeated key " + quote(m.key))
			}
		}
		members = append(members, member{key.(string), value})
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return nil, errors.New("malformed JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the JSON object")
	}
	return members, nil
}
