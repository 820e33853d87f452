package gold

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"time"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"gocloud.dev/blob"

	"github.com/stator-db/stator/apps/goals"
)

// Plan describes a generated day. The same plan gives the same files, and a customer
// has the same history on every day.
type Plan struct {
	Day       string
	AsOf      time.Time
	First     int // the number of the first customer
	Customers int
	Seed      uint64
	Format    string // "parquet" or "jsonl"
	PartRows  int    // customers per file; defaults to 50,000

	// Compression of Parquet: none, snappy, gzip or zstd; defaults to snappy.
	Compression string

	// Extra are additional contributions.
	Extra []Contribution
}

var (
	givenNames  = []string{"Ana", "Bruno", "Carla", "Diego", "Elisa", "Felipe", "Gabriela", "Hugo", "Inês", "João", "Karina", "Lucas", "Marina", "Nuno", "Olívia", "Paulo", "Rita", "Sofia", "Tiago", "Vera"}
	familyNames = []string{"Almeida", "Barros", "Cardoso", "Duarte", "Esteves", "Ferreira", "Gomes", "Lima", "Martins", "Nunes", "Oliveira", "Pereira", "Ramos", "Silva", "Teixeira", "Vieira"}
	segments    = []string{"STARTER", "CLASSIC", "CLASSIC", "PREMIUM"}
	products    = []string{"SAV", "GOV", "CDB"}
	languages   = []string{"pt-BR", "pt-BR", "en", "es"}
)

// Person returns the id of a generated customer.
func Person(seed uint64, number int) uuid.UUID {
	r := rand.New(rand.NewPCG(seed, uint64(number)))
	var id uuid.UUID
	for i := range id {
		id[i] = byte(r.UintN(256))
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// Made returns a generated customer and the contributions from the first day of the
// month to asOf.
func (p *Plan) Made(number int) (Customer, []Contribution) {
	r := rand.New(rand.NewPCG(p.Seed+1, uint64(number)))
	id := Person(p.Seed, number).String()
	c := Customer{
		PersonID:      id,
		Name:          givenNames[r.IntN(len(givenNames))] + " " + familyNames[r.IntN(len(familyNames))],
		Segment:       segments[r.IntN(len(segments))],
		Language:      languages[r.IntN(len(languages))],
		Notifications: r.IntN(3) > 0,
	}
	first := time.Date(p.AsOf.Year(), p.AsOf.Month(), 1, 0, 0, 0, 0, time.UTC)
	var made []Contribution
	for range r.IntN(5) {
		at := first.Add(time.Duration(r.Int64N(int64(28 * 24 * time.Hour)))).Truncate(time.Second)
		one := Contribution{PersonID: id, Product: products[r.IntN(len(products))], Amount: goals.Money(1000 + 500*r.Int64N(150)), ContributedAt: at}
		if !at.After(p.AsOf) {
			made = append(made, one)
		}
	}
	return c, made
}

var codecs = map[string]compress.Codec{"": &parquet.Snappy, "none": &parquet.Uncompressed, "snappy": &parquet.Snappy, "gzip": &parquet.Gzip, "zstd": &parquet.Zstd}

// Past returns the goals that a generated customer has reached in the six months before
// asOf.
func (p *Plan) Past(number int) (past []Accomplished) {
	id, month := Person(p.Seed, number).String(), time.Date(p.AsOf.Year(), p.AsOf.Month(), 1, 0, 0, 0, 0, time.UTC)
	for range 6 {
		month = month.AddDate(0, -1, 0)
		r := rand.New(rand.NewPCG(p.Seed+2, uint64(number)<<16|uint64(month.Year()*12+int(month.Month()))))
		for i, goal := range []string{"SAVINGS_ACCOUNT", "GOVERNMENT_BONDS", "CERTIFICATE_OF_DEPOSIT"} {
			if r.IntN(5) == 0 {
				past = append(past, Accomplished{PersonID: id, GoalID: goal, Month: month.Format(goals.MonthLayout), Amount: goals.Money(50_000*(i+1) + 500*r.IntN(100)), Rate: []goals.Rate{800, 1200, 1400}[i]})
			}
		}
	}
	return past
}

// Generate writes a generated day, its manifest last.
func Generate(ctx context.Context, bucket *blob.Bucket, p Plan) (*Manifest, error) {
	if p.Format != "parquet" && p.Format != "jsonl" {
		return nil, fmt.Errorf("the format is %q, but must be parquet or jsonl", p.Format)
	}
	if codecs[p.Compression] == nil {
		return nil, fmt.Errorf("the compression is %q, but must be none, snappy, gzip or zstd", p.Compression)
	}
	if p.PartRows == 0 {
		p.PartRows = 50_000
	}
	m := &Manifest{Day: p.Day, AsOf: p.AsOf}
	for done, part := 0, 0; done < p.Customers || part == 0; part++ {
		n := min(p.PartRows, p.Customers-done)
		if err := p.writePart(ctx, bucket, m, part, p.First+done, n); err != nil {
			return nil, err
		}
		done += n
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := bucket.WriteAll(ctx, path.Join(Folder(p.Day), "manifest.json"), b, nil); err != nil {
		return nil, fmt.Errorf("write the manifest of day %s: %w", p.Day, err)
	}
	return m, nil
}

// writePart writes a file of customers and one of their contributions.
func (p *Plan) writePart(ctx context.Context, bucket *blob.Bucket, m *Manifest, part, first, n int) error {
	customers, err := create[Customer](ctx, bucket, p, "customers", part)
	if err != nil {
		return err
	}
	defer customers.stop()
	contributions, err := create[Contribution](ctx, bucket, p, "contributions", part)
	if err != nil {
		return err
	}
	defer contributions.stop()
	accomplished, err := create[Accomplished](ctx, bucket, p, "accomplished", part)
	if err != nil {
		return err
	}
	defer accomplished.stop()
	for i := range n {
		c, made := p.Made(first + i)
		if err := customers.write(c); err != nil {
			return err
		}
		if err := contributions.write(made...); err != nil {
			return err
		}
		if err := accomplished.write(p.Past(first + i)...); err != nil {
			return err
		}
	}
	if part == 0 {
		if err := contributions.write(p.Extra...); err != nil {
			return err
		}
	}
	cf, err := customers.close()
	if err != nil {
		return err
	}
	kf, err := contributions.close()
	if err != nil {
		return err
	}
	af, err := accomplished.close()
	if err != nil {
		return err
	}
	m.Customers, m.Contributions, m.Accomplished = append(m.Customers, cf), append(m.Contributions, kf), append(m.Accomplished, af)
	return nil
}

// out is a gold file that is being written.
type out[T any] struct {
	name    string
	rows    int64
	object  io.WriteCloser
	stop    context.CancelFunc // discards the object unless it was closed
	parquet *parquet.GenericWriter[T]
	text    *bufio.Writer
	lines   *json.Encoder
}

func create[T any](ctx context.Context, bucket *blob.Bucket, p *Plan, kind string, part int) (*out[T], error) {
	o := &out[T]{name: fmt.Sprintf("%s-%05d.%s", kind, part, p.Format)}
	ctx, o.stop = context.WithCancel(ctx)
	object, err := bucket.NewWriter(ctx, path.Join(Folder(p.Day), o.name), nil)
	if err != nil {
		o.stop()
		return nil, fmt.Errorf("write %s: %w", o.name, err)
	}
	o.object = object
	if p.Format == "parquet" {
		o.parquet = parquet.NewGenericWriter[T](object, parquet.Compression(codecs[p.Compression]), parquet.PageBufferSize(256<<10), parquet.MaxRowsPerRowGroup(10_000))
	} else {
		o.text = bufio.NewWriterSize(object, 64<<10)
		o.lines = json.NewEncoder(o.text)
	}
	return o, nil
}

func (o *out[T]) write(rows ...T) (err error) {
	o.rows += int64(len(rows))
	if o.parquet != nil {
		_, err = o.parquet.Write(rows)
	} else {
		for i := range rows {
			if err = o.lines.Encode(&rows[i]); err != nil {
				break
			}
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", o.name, err)
	}
	return nil
}

func (o *out[T]) close() (File, error) {
	var err error
	if o.parquet != nil {
		err = o.parquet.Close()
	} else {
		err = o.text.Flush()
	}
	if err == nil {
		err = o.object.Close()
	}
	if err != nil {
		return File{}, fmt.Errorf("write %s: %w", o.name, err)
	}
	return File{Name: o.name, Rows: o.rows}, nil
}
