package statortest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/match"
	"github.com/stator-db/stator/internal/workload"
	"github.com/stator-db/stator/tablemodel"
)

// Model opens a database with the tables of a model file and returns a client for
// it. When the test ends, it fails for each kind of request to these tables that no
// access pattern of the model matches, and names the closest pattern. Requests that the
// database rejected do not count, nor do requests to other tables.
func Model(t testing.TB, file string) *dynamodb.Client {
	t.Helper()
	return ModelWith(t, file, stator.Options{})
}

// ModelWith is Model with options.
func ModelWith(t testing.TB, file string, o stator.Options) *dynamodb.Client {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read the model: %v", err)
	}
	m, err := model.Parse(file, text)
	if err != nil {
		t.Fatalf("%v", err)
	}
	tables, err := tablemodel.Parse(file, text)
	if err != nil {
		t.Fatalf("%v", err)
	}
	opened, client := open(t, o)
	opened.model = m
	if err := tablemodel.Ensure(t.Context(), client, tables); err != nil {
		t.Fatalf("create the tables of %s: %v", file, err)
	}
	t.Cleanup(func() { // before the database is closed
		t.Helper()
		counted, err := requestCounts(opened.db)
		if err != nil {
			t.Errorf("read the request counts: %v", err)
			return
		}
		for _, fault := range unmatched(m, counted) {
			t.Errorf("%s: %s", file, fault)
		}
	})
	return client
}

// unmatched describes the requests to a model's tables that no pattern matches.
func unmatched(m *model.Model, counted workload.Report) (faults []string) {
	matcher := match.New(m)
	for _, c := range counted.Shapes {
		if _, ok := m.Table(c.Table); !ok || len(matcher.Find(c.Shape)) > 0 {
			continue
		}
		fault := fmt.Sprintf("no access pattern matches %s (%s)", c.Text(), times(c.Requests))
		if p, differs := matcher.Nearest(c.Shape); p != nil {
			fault += fmt.Sprintf("; the closest pattern is %q; the request differs from it: %s", p.Name, strings.Join(differs, ", "))
		}
		faults = append(faults, fault)
	}
	if n := counted.Other.Requests; n > 0 {
		faults = append(faults, fmt.Sprintf("%d requests had more shapes than are counted separately, and are not compared", n))
	}
	return faults
}

// requestCounts returns the requests that a database has executed, by shape.
func requestCounts(db *stator.DB) (counted workload.Report, err error) {
	r, err := http.NewRequest(http.MethodGet, endpoint+"/shapes", nil)
	if err != nil {
		return counted, err
	}
	// The context of the test is done when its cleanup runs.
	identity, err := identity.Retrieve(context.Background())
	if err != nil {
		return counted, err
	}
	empty := sha256.Sum256(nil)
	if err := v4.NewSigner().SignHTTP(context.Background(), identity, r, hex.EncodeToString(empty[:]), "dynamodb", region, time.Now()); err != nil {
		return counted, err
	}
	reply, err := db.Client().Do(r)
	if err != nil {
		return counted, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return counted, fmt.Errorf("status %d", reply.StatusCode)
	}
	return counted, json.NewDecoder(reply.Body).Decode(&counted)
}
