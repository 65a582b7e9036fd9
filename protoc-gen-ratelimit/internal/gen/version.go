package gen

// Version is the plugin's, as generated files state it. It changes with each
// release, and not with each build, so that equal input gives equal output.
const Version = "v0.1.0"
