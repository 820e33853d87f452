package table

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/documents/keys"
)

// Ids of batches and documents are derived, so that what was deleted can be created
// again under the same id. While its job DELETE exists, that is refused: the job
// deletes whatever has the id.

// errDeleting is returned for such a creation.
var errDeleting = fmt.Errorf("%w: what had this id is being deleted, which takes some minutes", ErrBusy)

// deletionOfBatch is the key of the job that deletes what belongs to a batch.
func deletionOfBatch(t keys.Tenant, b keys.BatchID) keys.Key {
	return t.Job(Deletion{What: "batch", Batch: &b}.id(t), JobDelete)
}

// deletionOfDocument is the key of the job that deletes what belongs to a document.
func deletionOfDocument(t keys.Tenant, b keys.BatchID, d keys.DocumentID) keys.Key {
	return t.Job(Deletion{What: "document", Batch: &b, Document: &d}.id(t), JobDelete)
}

// Deleting returns which of the documents are being deleted, alone or with their
// batch.
func (s *Store) Deleting(ctx context.Context, t keys.Tenant, b keys.BatchID, documents []keys.DocumentID) (map[keys.DocumentID]bool, error) {
	batch := deletionOfBatch(t, b)
	wanted := []keys.Key{batch}
	for _, d := range documents {
		wanted = append(wanted, deletionOfDocument(t, b, d))
	}
	there, err := s.there(ctx, wanted...)
	if err != nil {
		return nil, err
	}
	deleted := make(map[keys.DocumentID]bool)
	for i, d := range documents {
		deleted[d] = there[batch] || there[wanted[i+1]]
	}
	return deleted, nil
}

// Recorded returns which of the documents a batch has.
func (s *Store) Recorded(ctx context.Context, t keys.Tenant, b keys.BatchID, documents []keys.DocumentID) (map[keys.DocumentID]bool, error) {
	var wanted []keys.Key
	for _, d := range documents {
		wanted = append(wanted, t.Document(b, d))
	}
	there, err := s.there(ctx, wanted...)
	if err != nil {
		return nil, err
	}
	recorded := make(map[keys.DocumentID]bool)
	for i, d := range documents {
		recorded[d] = there[wanted[i]]
	}
	return recorded, nil
}

// there returns which items exist now.
func (s *Store) there(ctx context.Context, all ...keys.Key) (map[keys.Key]bool, error) {
	type name struct{ PK, SK string }
	byName := make(map[name]keys.Key)
	found := make(map[keys.Key]bool)
	for some := range slices.Chunk(all, 100) {
		var wanted []map[string]types.AttributeValue
		for _, key := range some {
			var n name
			if err := read(key.Attributes(), &n); err != nil {
				return nil, err
			}
			if _, twice := byName[n]; !twice {
				byName[n] = key
				wanted = append(wanted, key.Attributes())
			}
		}
		for try := 0; len(wanted) > 0; try++ {
			out, err := s.DB.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
				s.Table: {Keys: wanted, ConsistentRead: aws.Bool(true), ProjectionExpression: aws.String("PK, SK")},
			}})
			if err != nil {
				return nil, fmt.Errorf("look up items: %w", err)
			}
			var names []name
			if err := attributevalue.UnmarshalListOfMaps(out.Responses[s.Table], &names); err != nil {
				return nil, fmt.Errorf("decode a key: %w", err)
			}
			for _, n := range names {
				found[byName[n]] = true
			}
			if wanted = out.UnprocessedKeys[s.Table].Keys; len(wanted) > 0 {
				if err := pause(ctx, min(try, 10)); err != nil {
					return nil, err
				}
			}
		}
	}
	return found, nil
}
