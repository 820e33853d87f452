package gold

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"gocloud.dev/blob"

	"github.com/stator-db/stator/apps/goals"
)

// Customer is a row of a customers file. In Parquet, ChosenAt is a timestamp in
// microseconds, in JSON RFC 3339.
type Customer struct {
	PersonID      string     `parquet:"personId,plain" json:"personId"`
	Name          string     `parquet:"name,plain" json:"name"`
	Segment       string     `parquet:"segment,plain" json:"segment"`
	Language      string     `parquet:"language,plain" json:"language"`
	Notifications bool       `parquet:"notifications" json:"notifications"`
	ChosenGoal    *string    `parquet:"chosenGoal,optional,plain" json:"chosenGoal,omitempty"`
	ChosenAt      *time.Time `parquet:"chosenAt,optional,timestamp(microsecond)" json:"chosenAt,omitempty"`
}

// Contribution is a row of a contributions file: reconciled money. In Parquet, the
// amount is DECIMAL(18,2), in JSON a number.
type Contribution struct {
	PersonID      string      `parquet:"personId,plain" json:"personId"`
	Product       string      `parquet:"product,plain" json:"product"`
	Amount        goals.Money `parquet:"amount,decimal(2:18)" json:"amount"`
	ContributedAt time.Time   `parquet:"contributedAt,timestamp(microsecond)" json:"contributedAt"`
}

// Accomplished is a row of a file of accomplished goals: a goal that a customer reached
// in an earlier month. In Parquet, the rate is DECIMAL(18,4).
type Accomplished struct {
	PersonID string      `parquet:"personId,plain" json:"personId"`
	GoalID   string      `parquet:"goalId,plain" json:"goalId"`
	Month    string      `parquet:"month,plain" json:"month"`
	Amount   goals.Money `parquet:"savedAmount,decimal(2:18)" json:"savedAmount"`
	Rate     goals.Rate  `parquet:"specialRate,decimal(4:18)" json:"specialRate"`
}

// BadRow is the error of an invalid row; later rows can still be read.
type BadRow struct{ Reason string }

func (b *BadRow) Error() string { return b.Reason }

// Use receives a row, or the error of reading it. The number counts from 1; the row is
// valid until the next call.
type Use[T any] func(number int64, row *T, bad *BadRow) error

// Read yields the rows of a file, in order. A broken file, or one with another number
// of rows than in the manifest, is an error. scratch is a folder for temporary files.
func Read[T Customer | Contribution | Accomplished](ctx context.Context, bucket *blob.Bucket, day string, f File, scratch string, use Use[T]) error {
	name := path.Join(Folder(day), f.Name)
	count := &counter[T]{limit: f.Rows, use: use}
	var err error
	if strings.HasSuffix(f.Name, ".parquet") {
		err = readParquet(ctx, bucket, name, scratch, count.take)
	} else {
		err = readLines(ctx, bucket, name, count.take)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if count.rows != f.Rows {
		return fmt.Errorf("%s: the file has %d rows, the manifest says %d: it was truncated or changed; write the day again", name, count.rows, f.Rows)
	}
	return nil
}

type counter[T any] struct {
	rows, limit int64
	use         Use[T]
}

func (c *counter[T]) take(row *T, bad *BadRow) error {
	c.rows++
	if c.rows > c.limit {
		return fmt.Errorf("the file has more than the %d rows of the manifest", c.limit)
	}
	return c.use(c.rows, row, bad)
}

// maxLine is the maximum length of a line of JSON, in bytes.
const maxLine = 64 << 10

func readLines[T any](ctx context.Context, bucket *blob.Bucket, name string, take func(*T, *BadRow) error) error {
	r, err := bucket.NewReader(ctx, name, nil)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { _ = r.Close() }()
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 16<<10), maxLine)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var row T
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			if err := take(nil, &BadRow{fmt.Sprintf("not the expected JSON: %v", err)}); err != nil {
				return err
			}
			continue
		}
		if err := take(&row, nil); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line has more than the limit of %d bytes", maxLine)
	}
	return lines.Err()
}
