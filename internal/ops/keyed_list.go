package ops

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
)

// keyedList is a list that is returned in pages, in order of its keys.
type keyedList[T any] []keyedEntry[T]

type keyedEntry[T any] struct {
	key   string
	reply T
}

func (l *keyedList[T]) add(key string, reply T) { *l = append(*l, keyedEntry[T]{key, reply}) }

// page returns the page that a request asks for, of no more than limit entries, and the
// token of the next one, which is the key of the last entry.
func (l keyedList[T]) page(most *int32, token *string, limit int) (page []T, next string, err error) {
	after := ""
	if token != nil {
		key, err := base64.RawURLEncoding.DecodeString(*token)
		if err != nil || len(key) == 0 {
			return nil, "", apierror.InvalidNextToken()
		}
		after = string(key)
	}
	if most != nil && *most > 0 {
		limit = min(limit, int(*most))
	}
	slices.SortStableFunc(l, func(a, b keyedEntry[T]) int { return cmp.Compare(a.key, b.key) })
	last := ""
	for _, entry := range l {
		if token != nil && strings.Compare(entry.key, after) <= 0 {
			continue
		}
		if len(page) == limit {
			return page, base64.RawURLEncoding.EncodeToString([]byte(last)), nil
		}
		page, last = append(page, entry.reply), entry.key
	}
	return page, "", nil
}
