package door

// scanChunked scans the bytes after the head of a chunked request. When it is
// done, the encoded body ends at end.
//
// It accepts chunks as clients write them: hexadecimal digits, no extensions, no
// trailers. It does not change the bytes, so that net/http can still read them.
func scanChunked(b []byte) (end int, v verdict) {
	for {
		n, data, v := chunkLine(b[end:])
		if v != done {
			return 0, v
		}
		end += data
		if len(b) < end+n+2 {
			return 0, waitFor(b[min(end+n, len(b)):])
		}
		if b[end+n] != '\r' || b[end+n+1] != '\n' {
			return 0, pass
		}
		end += n + 2
		if n == 0 {
			return end, done
		}
	}
}

// waitFor returns more, or pass if b cannot become the end of a line.
func waitFor(b []byte) verdict {
	if len(b) > 0 && b[0] != '\r' {
		return pass
	}
	return more
}

// chunkLine parses the size of a chunk, whose data begins at data.
func chunkLine(b []byte) (n, data int, v verdict) {
	i := 0
	for ; i < len(b); i++ {
		d, ok := hexDigit(b[i])
		if !ok {
			break
		}
		if i == 7 { // larger than the buffer; stop before n overflows
			return 0, 0, pass
		}
		n = n<<4 | d
	}
	switch {
	case i == len(b):
		return 0, 0, more
	case i == 0 || b[i] != '\r':
		return 0, 0, pass
	case i+1 == len(b):
		return 0, 0, more
	case b[i+1] != '\n':
		return 0, 0, pass
	}
	return n, i + 2, done
}

func hexDigit(c byte) (int, bool) {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0'), true
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10, true
	}
	return 0, false
}

// joinChunks moves the data of chunks that scanChunked has accepted to the front
// of b.
func joinChunks(b []byte) []byte {
	size, at := 0, 0
	for {
		n, data, _ := chunkLine(b[at:])
		if n == 0 {
			return b[:size]
		}
		at += data
		copy(b[size:], b[at:at+n])
		size += n
		at += n + 2
	}
}
