package etcdnode

// Replacing is the archive that PutFiles sends.
var Replacing = replacing
