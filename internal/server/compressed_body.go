package server

import (
	"context"
	"errors"
	"io"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/server/admission"
	"github.com/stator-db/stator/internal/server/coding"
	"github.com/stator-db/stator/internal/server/door"
)

// decodedBody is the memory of a body that was decoded.
type decodedBody struct{ text []byte }

// Drop returns the memory to its pool.
func (b *decodedBody) Drop() { b.text = buffer.Put(b.text) }

// readBody reads the body of a request, as it was sent.
func (h *Handler) readBody(ctx context.Context, r *door.Request) ([]byte, *admission.Reservation, error) {
	if c, _ := coding.Parse(r.ContentEncoding()); c != coding.Identity {
		return h.bodies.ReadEncoded(ctx, r, r.Length)
	}
	return h.bodies.Read(ctx, r)
}

// decompress decodes the body of a request, whose memory is held, and returns the decoded
// body with its memory in place of that. The caller releases it, also after an error.
//
// A body that is not in its coding is answered with an InternalServerError, as by DynamoDB
// (ScyllaDB's test_compressed_request.py, which it runs against DynamoDB); the message of
// that is not known. A decoded body has the same limit as any other.
func (h *Handler) decompress(ctx context.Context, encoding, sent []byte, held *admission.Reservation) ([]byte, *admission.Reservation, error) {
	c, ok := coding.Parse(encoding)
	if !ok {
		return nil, held, internal("The Content-Encoding is not supported. The codings gzip and deflate are.")
	}
	if c == coding.Identity {
		return sent, held, nil
	}
	defer held.Release() // of the sent body
	b := new(decodedBody)
	decoded, returned := h.bodies.Reserve(ctx, b), false
	defer func() {
		if !returned { // a panic
			decoded.Release()
		}
	}()
	err := h.decodeInto(ctx, b, decoded, c, sent)
	returned = true
	if errors.Is(err, coding.ErrMalformed) {
		err = internal("The body is not in its Content-Encoding, or it is incomplete.")
	}
	return b.text, decoded, err
}

// smallDecodedBytes is the size up to which a decoded body is small: with the decoder it
// needs less than a large body.
const smallDecodedBytes = admission.LargeBytes - coding.DecoderBytes

// decodeInto decodes a body within a reservation. Like large bodies, one that is not small
// when it is decoded waits for its turn; it reserves all memory that it may need before,
// because it must not wait for memory during its turn. One that is not small as it was sent
// does so, too: if it has little text, it is one that takes long to decode.
func (h *Handler) decodeInto(ctx context.Context, b *decodedBody, held *admission.Reservation, c coding.Coding, sent []byte) error {
	if err := held.Add(coding.DecoderBytes); err != nil {
		return err
	}
	d := coding.NewDecoder(ctx, c, sent)
	defer d.Close()
	defer func() { held.Shrink(int64(cap(b.text))) }()
	if len(sent) <= smallDecodedBytes {
		if ended, err := b.readSmall(d, held); ended || err != nil {
			return err
		}
	}
	most := buffer.Size(admission.MaxBodyBytes + 1)
	reserve := func() error { return held.Add(int64(most - cap(b.text))) }
	var err error
	if busy := h.decoding.RunPrepared(ctx, len(sent), reserve, func() { err = b.readLarge(d, most) }); busy != nil {
		return busy
	}
	return err
}

// readSmall reads up to smallDecodedBytes. It reports whether the body ended.
func (b *decodedBody) readSmall(d io.Reader, held *admission.Reservation) (ended bool, err error) {
	for size := 4096; size <= smallDecodedBytes; size *= 2 {
		if err := held.Add(int64(size - cap(b.text))); err != nil {
			return false, err
		}
		b.grow(size)
		if ended, err = b.fill(d); ended || err != nil {
			return ended, err
		}
	}
	return false, nil
}

// readLarge reads the rest into a buffer of the largest size, and moves it to a smaller one
// if most of that stays empty.
func (b *decodedBody) readLarge(d io.Reader, most int) error {
	b.grow(most)
	switch ended, err := b.fill(d); {
	case err != nil:
		return err
	case !ended || len(b.text) > admission.MaxBodyBytes:
		return door.ErrTooLarge
	}
	if size := buffer.Size(len(b.text)); size <= cap(b.text)/2 {
		b.grow(size)
	}
	return nil
}

// grow moves the text to a buffer of another size.
func (b *decodedBody) grow(size int) {
	moved := append(buffer.Get(size), b.text...)
	buffer.Put(b.text)
	b.text = moved
}

// fill reads until the buffer is full or the body ends.
func (b *decodedBody) fill(d io.Reader) (ended bool, err error) {
	for len(b.text) < cap(b.text) {
		n, err := d.Read(b.text[len(b.text):cap(b.text)])
		b.text = b.text[:len(b.text)+n]
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}
