//go:build race

package downloads_test

// manyFiles is fewer under the race detector, which makes each ten times slower.
const manyFiles = 400
