package gold

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// The memory limits of a page. A page is held in memory, and so is the dictionary of a
// column; writers make pages of about 1 MiB.
const (
	maxPage       = 8 << 20
	maxDictionary = 2 << 20
	maxPageValues = 1 << 20
	maxText       = 4 << 10 // of a text: each row has its own copy, also of one in a dictionary
)

// oldDictionary is PLAIN_DICTIONARY, which writers of pages of the first version
// still use for dictionaries and for the values that refer to them.
const oldDictionary format.Encoding = 2

// checkPages reads all pages and rejects those that would need more memory than
// allowed: a few bytes can claim to be gigabytes, in a page's header, in a compressed
// block, and in the length of a run; and a long text in a dictionary can be that of
// every row. Texts in columns that are not wanted may be longer: they are not read.
func checkPages(file io.ReaderAt, opened *parquet.File, wanted *parquet.Schema) error {
	c := &pageCheck{in: bufio.NewReader(nil)}
	defer c.close()
	for _, group := range opened.Metadata().RowGroups {
		for _, column := range group.Columns {
			m := &column.MetaData
			leaf, ok := opened.Schema().Lookup(m.PathInSchema...)
			if !ok {
				return fmt.Errorf("column %v is not in the schema", m.PathInSchema)
			}
			c.codec, c.repetition, c.definition = m.Codec, leaf.MaxRepetitionLevel, leaf.MaxDefinitionLevel
			_, read := wanted.Lookup(m.PathInSchema...)
			c.texts = read && m.Type == format.ByteArray
			if err := c.column(file, opened.Size(), m); err != nil {
				return fmt.Errorf("column %v: %w", m.PathInSchema, err)
			}
		}
	}
	return nil
}

// pageCheck checks the pages of one column at a time.
type pageCheck struct {
	in                     *bufio.Reader
	codec                  format.CompressionCodec
	repetition, definition int
	texts                  bool   // the values are texts, which are read
	page, plain            []byte // buffers, reused for the next page
	gzip                   *gzip.Reader
	zstd                   *zstd.Decoder
}

func (c *pageCheck) column(file io.ReaderAt, size int64, m *format.ColumnMetaData) error {
	switch c.codec {
	case format.Uncompressed, format.Snappy, format.Gzip, format.Zstd:
	default:
		return fmt.Errorf("it is compressed with %s; only SNAPPY, GZIP, ZSTD and uncompressed columns are supported", c.codec)
	}
	start := m.DataPageOffset
	if m.DictionaryPageOffset != 0 {
		start = m.DictionaryPageOffset
	}
	if start < 4 || m.TotalCompressedSize < 0 || start > size || m.TotalCompressedSize > size-start {
		return errors.New("it is outside of the file")
	}
	c.in.Reset(io.NewSectionReader(file, start, m.TotalCompressedSize))
	var protocol thrift.CompactProtocol
	for {
		if _, err := c.in.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		var h format.PageHeader
		if err := thrift.NewDecoder(protocol.NewReader(c.in)).Decode(&h); err != nil {
			return fmt.Errorf("a page's header: %w", err)
		}
		if err := c.pageOf(&h); err != nil {
			return err
		}
	}
}

func (c *pageCheck) pageOf(h *format.PageHeader) error {
	var values int32
	var encoding format.Encoding
	limit := int32(maxPage)
	switch h.Type {
	case format.DataPage:
		values, encoding = h.DataPageHeader.V.NumValues, h.DataPageHeader.V.Encoding
	case format.DataPageV2:
		values, encoding = h.DataPageHeaderV2.V.NumValues, h.DataPageHeaderV2.V.Encoding
	case format.DictionaryPage:
		values, encoding, limit = h.DictionaryPageHeader.V.NumValues, h.DictionaryPageHeader.V.Encoding, maxDictionary
	default:
		return fmt.Errorf("a page has the type %v", h.Type)
	}
	switch {
	case h.CompressedPageSize < 0 || h.UncompressedPageSize < 0 || values < 0:
		return errors.New("a page has a negative size")
	case h.CompressedPageSize > limit || h.UncompressedPageSize > limit:
		return fmt.Errorf("a page has %d bytes; the limit is %d", max(h.CompressedPageSize, h.UncompressedPageSize), limit)
	case values > maxPageValues:
		return fmt.Errorf("a page has %d values; the limit is %d", values, maxPageValues)
	}
	c.page = append(c.page[:0], make([]byte, h.CompressedPageSize)...)
	if _, err := io.ReadFull(c.in, c.page); err != nil {
		return fmt.Errorf("a page is truncated: %w", err)
	}
	switch h.Type {
	case format.DataPage:
		return c.first(encoding, int(limit))
	case format.DataPageV2:
		return c.second(&h.DataPageHeaderV2.V, int(limit))
	}
	if encoding != format.Plain && encoding != oldDictionary {
		return fmt.Errorf("a dictionary is encoded with %s; only PLAIN is supported", encoding)
	}
	body, err := c.unpack(c.page, int(limit))
	if err != nil {
		return err
	}
	return c.values(format.Plain, body)
}

// first checks a page of version 1: levels and values, compressed together, the levels
// prefixed with their length.
func (c *pageCheck) first(encoding format.Encoding, limit int) error {
	body, err := c.unpack(c.page, limit)
	if err != nil {
		return err
	}
	for _, level := range []int{c.repetition, c.definition} {
		if level == 0 {
			continue
		}
		var runs []byte
		if runs, body, err = measured(body); err != nil {
			return err
		}
		if err := checkRuns(runs, bits.Len(uint(level))); err != nil {
			return err
		}
	}
	return c.values(encoding, body)
}

// second checks a page of version 2: uncompressed levels, then values that may be
// compressed.
func (c *pageCheck) second(h *format.DataPageHeaderV2, limit int) error {
	body := c.page
	for _, level := range []struct {
		size int32
		most int
	}{{h.RepetitionLevelsByteLength, c.repetition}, {h.DefinitionLevelsByteLength, c.definition}} {
		if level.size < 0 || int(level.size) > len(body) {
			return errors.New("a page's levels are longer than the page")
		}
		if err := checkRuns(body[:level.size], bits.Len(uint(level.most))); err != nil {
			return err
		}
		body = body[level.size:]
	}
	if !h.IsCompressed.Valid || h.IsCompressed.V {
		var err error
		if body, err = c.unpack(body, limit); err != nil {
			return err
		}
	}
	return c.values(h.Encoding, body)
}

// unpack decompresses a block that does not exceed the limit.
func (c *pageCheck) unpack(b []byte, limit int) (_ []byte, err error) {
	if c.codec == format.Uncompressed || len(b) == 0 {
		return b, nil
	}
	switch c.codec {
	case format.Snappy:
		claims, err := snappy.DecodedLen(b)
		if err != nil || claims > limit {
			return nil, fmt.Errorf("a compressed page claims %d bytes; the limit is %d", claims, limit)
		}
		c.plain, err = snappy.Decode(c.plain[:cap(c.plain)], b)
		if err != nil {
			return nil, fmt.Errorf("a page cannot be decompressed: %w", err)
		}
		return c.plain, nil
	case format.Gzip:
		if c.gzip == nil {
			c.gzip = new(gzip.Reader)
		}
		err = c.gzip.Reset(bytes.NewReader(b))
		if err == nil {
			err = c.inflate(c.gzip, limit)
		}
	case format.Zstd:
		// A frame with a window above the limit is rejected before it is allocated.
		if c.zstd == nil {
			c.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxPage), zstd.WithDecoderLowmem(true))
			if err != nil {
				return nil, err
			}
		}
		err = c.zstd.Reset(bytes.NewReader(b))
		if err == nil {
			err = c.inflate(c.zstd, limit)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("a page cannot be decompressed: %w", err)
	}
	return c.plain, nil
}

// inflate reads all of a decompressor, up to the limit.
func (c *pageCheck) inflate(from io.Reader, limit int) error {
	plain := bytes.NewBuffer(c.plain[:0])
	n, err := io.Copy(plain, io.LimitReader(from, int64(limit)+1))
	c.plain = plain.Bytes()
	if err == nil && n > int64(limit) {
		return fmt.Errorf("it has more than the limit of %d bytes", limit)
	}
	return err
}

// close releases the decompressors.
func (c *pageCheck) close() {
	if c.zstd != nil {
		c.zstd.Close()
	}
}

func (c *pageCheck) values(encoding format.Encoding, body []byte) error {
	switch encoding {
	case format.Plain:
		if c.texts {
			return checkTexts(body)
		}
		return nil
	case oldDictionary, format.RLEDictionary:
		if len(body) == 0 {
			return nil
		}
		return checkRuns(body[1:], int(body[0]))
	case format.RLE:
		runs, _, err := measured(body)
		if err != nil {
			return err
		}
		return checkRuns(runs, 1)
	}
	return fmt.Errorf("a page is encoded with %s; only PLAIN, RLE and dictionaries are supported", encoding)
}

// checkTexts checks the lengths of texts, each of which is prefixed with its own.
func checkTexts(b []byte) error {
	for len(b) > 0 {
		text, rest, err := measured(b)
		if err != nil {
			return errors.New("a text is longer than its page")
		}
		if len(text) > maxText {
			return fmt.Errorf("a text has %d bytes; the limit is %d", len(text), maxText)
		}
		b = rest
	}
	return nil
}

// measured splits off a block that is prefixed with its length.
func measured(b []byte) (head, rest []byte, err error) {
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, nil, errors.New("a page's levels are longer than the page")
	}
	end := 4 + int(binary.LittleEndian.Uint32(b))
	return b[4:end], b[end:], nil
}

// checkRuns counts the values of runs without decoding them. The last group of eight
// may be padded.
func checkRuns(b []byte, width int) error {
	if width > 32 {
		return fmt.Errorf("a run has values of %d bits", width)
	}
	for total := uint64(0); len(b) > 0; {
		head, n := binary.Uvarint(b)
		if n <= 0 {
			return errors.New("a run is truncated")
		}
		b = b[n:]
		count, size := head>>1, uint64(width+7)/8
		if head&1 == 1 {
			count, size = count*8, count*uint64(width)
		}
		if total += count; count > maxPageValues+8 || total > maxPageValues+8 {
			return fmt.Errorf("runs have more than the limit of %d values", maxPageValues)
		}
		b = b[min(size, uint64(len(b))):]
	}
	return nil
}
