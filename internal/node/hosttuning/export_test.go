package hosttuning

// Missing is missing.
var Missing = missing
