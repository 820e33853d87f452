package dax

// Operation returns the name of the operation that a request asks for, as Request.Operation.
func (r Raw) Operation() string { return r.method.operation }

// Done ends the use of a request, whose memory is freed if it is large. Otherwise the
// connection would hold it until the next request.
func (r *Reader) Done() {
	if cap(r.stream.Buffer) > keptBuffer {
		r.stream.Buffer = nil
	}
}
