package hostkubelet

// ParseFlags is parseFlags.
var ParseFlags = parseFlags
