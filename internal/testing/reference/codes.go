package reference

import (
	"errors"
	"os"
	"regexp"
)

// Codes returns the examples of the codes on the page docs/reference/problem-codes.md, by code.
func Codes(page string) (map[string]string, error) {
	data, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, match := range regexp.MustCompile("(?m)^### (\\S+)\n\n.*\n\n```text\n(.*)\n").FindAllStringSubmatch(string(data), -1) {
		all[match[1]] = match[2]
	}
	if len(all) == 0 {
		return nil, errors.New(page + ": no codes")
	}
	return all, nil
}
