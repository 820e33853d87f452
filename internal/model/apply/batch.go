package apply

import (
	"context"
	"fmt"
	"time"
)

// WriteBatch sends a BatchWriteItem with the requests of each table, and repeats what was left
// unprocessed a limited number of times.
func WriteBatch(ctx context.Context, send Send, tables map[string][]any) error {
	const tries = 10
	for i := range tries {
		var reply struct{ UnprocessedItems map[string][]any }
		if err := send.Ask(ctx, "BatchWriteItem", map[string]any{"RequestItems": tables}, &reply); err != nil {
			return err
		}
		if len(reply.UnprocessedItems) == 0 {
			return nil
		}
		tables = reply.UnprocessedItems
		if err := Sleep(ctx, 10*time.Millisecond<<i); err != nil {
			return err
		}
	}
	return fmt.Errorf("items were left unprocessed %d times; is the table throttled?", tries)
}
