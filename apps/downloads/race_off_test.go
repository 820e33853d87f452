//go:build !race

package downloads_test

const manyFiles = 5000
