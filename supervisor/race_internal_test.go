//go:build race

package supervisor

// raceDetector says that the tests run with the race detector, which makes everything several times slower.
const raceDetector = true
