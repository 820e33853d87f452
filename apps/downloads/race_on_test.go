//go:build race

package downloads_test

// manyFiles is smaller under the race detector, which is ten times slower.
const manyFiles = 400
