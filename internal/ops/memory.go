package ops

import (
	"context"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// expecting is an operation whose requests reserve memory before they are executed.
func expecting[In any](o *operation, bytes func(in *In) int64) *operation {
	o.expects = func(in any) int64 { return bytes(in.(*In)) }
	return o
}

// readBytes is the memory for up to n items of at most limit bytes in total, and
// for about as much text.
func readBytes(n, limit int) int64 { return 2 * int64(min(n*item.MaxSize, limit+item.MaxSize)) }

func recordsBytes(*api.GetRecords) int64 {
	return readBytes(maxRecords, db.MaxPageBytes+item.MaxSize) // a record may have two images
}

// returnedRoom is room for items that writes return.
type returnedRoom struct {
	buffer.Room
	bytes int
}

// reserveReturned reserves memory for the items that n writes return, and three times
// as much for their text: after the writes the request cannot be repeated.
func reserveReturned(ctx context.Context, n int) (returnedRoom, error) {
	r := returnedRoom{buffer.RoomOf(ctx), 4 * min(n*item.MaxSize, maxBatchBytes)}
	if n == 0 || r.Room == nil {
		return returnedRoom{}, nil
	}
	if !r.Reserve(r.bytes) {
		return returnedRoom{}, buffer.ErrNoRoom
	}
	return r, nil
}

// end leaves the room of the text to the reply.
func (r returnedRoom) end() {
	if r.Room != nil {
		r.Return(r.bytes / 4 * 3)
	}
}

// uncountedBytes is the size of items up to which their text is not counted: it
// rarely exceeds buffer.Small then.
const uncountedBytes = 8 << 10

// reserveReply reserves the memory of a reply with large items: that of the items,
// and that of their text. The text may be much longer than the items. It returns
// an empty buffer for the text.
func reserveReply(reply any, memory *buffer.Scratch) ([]byte, error) {
	stored := 0
	eachItem(reply, func(it item.Item) { stored += len(it) })
	if stored <= uncountedBytes {
		return memory.Empty(), nil
	}
	text := 0
	eachItem(reply, func(it item.Item) {
		if it != nil {
			text += wire.ItemTextBytes(it)
		}
	})
	if stored+text <= buffer.Small {
		return memory.Empty(), nil
	}
	switch reply.(type) {
	case *api.PutItemReply:
		memory.Force(stored + text) // the item is written
	case *api.GetItemReply, *api.GetRecordsReply, *api.ItemHistoryReply, *api.DescribeExpiryReply:
		if !memory.Reserve(stored + text) {
			return nil, buffer.ErrNoRoom
		}
	default: // that of the items was reserved when they were read
		if !memory.Reserve(text) {
			return nil, buffer.ErrNoRoom
		}
	}
	return memory.Exactly(text + text/64 + 4096), nil
}

// reserveItems reserves the memory of a reply that is not encoded as JSON: that of its items,
// unless it was reserved when they were read, and that of the bytes that it becomes. They are
// not more than JSON would be.
func reserveItems(ctx context.Context, reply any) error {
	room := buffer.RoomOf(ctx)
	if room == nil {
		return nil
	}
	stored := 0
	eachItem(reply, func(it item.Item) { stored += len(it) })
	if stored <= uncountedBytes {
		return nil
	}
	encoded := 0
	eachItem(reply, func(it item.Item) { encoded += encodedBytes(it) })
	if stored+encoded <= buffer.Small {
		return nil
	}
	switch reply.(type) {
	case *api.PutItemReply:
		room.Force(stored + encoded) // the item is written
		return nil
	case *api.GetItemReply:
		encoded += stored
	}
	if !room.Reserve(encoded) {
		return buffer.ErrNoRoom
	}
	return nil
}

// encodedBytes is about the most bytes that an item becomes in a reply.
func encodedBytes(it item.Item) int {
	if it == nil {
		return 0
	}
	return wire.ItemTextBytes(it)
}

// eachItem calls fn with the items of a reply.
func eachItem(reply any, fn func(item.Item)) {
	switch r := reply.(type) {
	case *api.GetItemReply:
		fn(r.Item)
	case *api.PutItemReply: // and of UpdateItem and DeleteItem
		fn(r.Attributes)
	case *api.BatchGetItemReply:
		for _, items := range r.Responses {
			eachOf(items, fn)
		}
	case *api.ExecuteStatementReply:
		eachOf(r.Items, fn)
	case *api.TransactGetItemsReply:
		for i := range r.Responses {
			fn(r.Responses[i].Item)
		}
	case *api.ExecuteTransactionReply:
		for i := range r.Responses {
			fn(r.Responses[i].Item)
		}
	case *api.BatchExecuteStatementReply:
		for i := range r.Responses {
			fn(r.Responses[i].Item)
		}
	case *api.GetRecordsReply:
		for i := range r.Records {
			fn(r.Records[i].Dynamodb.NewImage)
			fn(r.Records[i].Dynamodb.OldImage)
		}
	case *api.ItemHistoryReply:
		for i := range r.Changes {
			fn(r.Changes[i].OldImage)
			fn(r.Changes[i].NewImage)
		}
	case *api.DescribeExpiryReply:
		for i := range r.DueItems {
			fn(r.DueItems[i].Key)
		}
		for i := range r.NextItems {
			fn(r.NextItems[i].Key)
		}
	case *api.UndoChangesReply:
		for i := range r.Writes {
			fn(r.Writes[i].Item)
			fn(r.Writes[i].CurrentItem)
		}
		for i := range r.Conflicts {
			fn(r.Conflicts[i].OldImage)
			fn(r.Conflicts[i].NewImage)
			fn(r.Conflicts[i].CurrentItem)
		}
	}
}

func eachOf(items []item.Item, fn func(item.Item)) {
	for _, it := range items {
		fn(it)
	}
}
