// Package taskqueue holds the model of the task queue's table. The system itself
// is in the packages below it: task defines tasks, table stores them, queue hands
// them out, front serves HTTP, and client is the HTTP client.
package taskqueue

import (
	_ "embed"
	"fmt"
	"strings"
)

// Model is the text of the table's model, which is on demand.
//
//go:embed taskqueue.model.yaml
var Model []byte

// Provisioned returns the text of the model with provisioned units and auto scaling: the write
// units of the table are within the bounds. Reads and indexes begin with their share of them, by the
// rates of the model: a quarter for the reads of the table, a third for the writes of GSI1 and a hundredth for
// those of GSI2. Only lists, and servers that start, read the indexes.
func Provisioned(fewest, most int) ([]byte, error) {
	if fewest < 1 || most < fewest {
		return nil, fmt.Errorf("the write units are between %d and %d, but the first must be at least 1 and not more than the second", fewest, most)
	}
	scaled := func(fewest, most int) string { return fmt.Sprintf("{min: %d, max: %d}", max(1, fewest), max(1, most)) }
	index := func(share int) string {
		return fmt.Sprintf("        read: %s\n        write: %s\n", scaled(1, most/4), scaled((fewest+share-1)/share, most))
	}
	const (
		billing     = "    billing: on-demand\n"
		projections = "        projection: ["
	)
	text := string(Model)
	parts := strings.SplitAfter(text, projections)
	if len(parts) != 3 || strings.Count(text, billing) != 1 {
		return nil, fmt.Errorf("the model has %d projections, not 2, or no billing", len(parts)-1)
	}
	parts[0] = strings.TrimSuffix(parts[0], projections) + index(3) + projections
	parts[1] = strings.TrimSuffix(parts[1], projections) + index(100) + projections
	return []byte(strings.Replace(strings.Join(parts, ""), billing,
		fmt.Sprintf("    billing: provisioned\n    read: %s\n    write: %s\n", scaled(fewest/4, most), scaled(fewest, most)), 1)), nil
}
