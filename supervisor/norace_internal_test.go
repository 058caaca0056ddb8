//go:build !race

package supervisor

// raceDetector says that the tests run with the race detector.
const raceDetector = false
