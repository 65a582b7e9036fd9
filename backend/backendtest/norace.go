//go:build !race

package backendtest

// raceDetector tells whether the race detector is on.
const raceDetector = false
