package node

func ParseMilli(s string) (int64, error) { return parseMilli(s) }
