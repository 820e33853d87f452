package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// searchRecording searches, and writes the exchanges to a file if one is asked
// for.
func (s settings) searchRecording(ctx context.Context, g group) (r *report, err error) {
	if s.record == "" {
		return s.search(ctx, g, nil, os.Stderr)
	}
	f, err := os.Create(s.record)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	defer func() { err = errors.Join(err, w.Flush()) }()
	lines := json.NewEncoder(w)
	return s.search(ctx, g, func(e exchange) { _ = lines.Encode(e) }, os.Stderr) // Flush reports errors
}

// compareRecorded compares the answers of a file again, and prints the report.
func (s settings) compareRecorded() (*report, error) {
	f, err := os.Open(s.recorded)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := s.newReport()
	err = readExchanges(f, func(e exchange) {
		for _, f := range r.count(e, e.compare()) {
			if u := r.add(f); u != nil {
				u.Steps = []step{e.Step}
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.recorded, err)
	}
	return r, s.print(r)
}

// readExchanges reads what a run has recorded.
func readExchanges(from io.Reader, visit func(exchange)) error {
	lines := json.NewDecoder(bufio.NewReader(from))
	for {
		var e exchange
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		visit(e)
	}
}
