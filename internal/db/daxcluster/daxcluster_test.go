package daxcluster

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/store/pebble"
)

// What was stored is there when the database is opened again.
func TestClustersSurviveARestart(t *testing.T) {
	folder := t.TempDir()
	ttl, text := int64(5), "a description <with> \u2028 signs"
	at := time.Unix(1_700_000_000, 0).UTC()
	want := &Registry{
		Clusters: []*Cluster{{Name: "shop", ARN: "arn", Created: at, Description: &text, NodeType: "dax.t3.small", Role: "role", SubnetGroup: "net", ParameterGroup: "ttls",
			SecurityGroups: []string{"sg-1"}, Maintenance: "sun:05:00-sun:06:00", Topic: "topic", TopicStatus: "active", Encrypted: true, TLS: true, NetworkType: "ipv4",
			Nodes: []Node{{ID: "shop-a", Zone: "a", Created: at}}, Tags: []Tag{{Key: "team"}, {Key: "of", Value: &text}}}},
		ParameterGroups: []*ParameterGroup{{Name: "ttls", Description: &text, ItemTTL: &ttl}},
		SubnetGroups:    []*SubnetGroup{{Name: "net", Subnets: []string{"subnet-1"}}},
		Events:          []Event{{Source: "shop", Type: OfCluster, Message: "Cluster created.", Time: at}},
	}
	opened := func(use func(d *db.DB)) {
		engine, err := pebble.Open(pebble.Options{Dir: folder})
		if err != nil {
			t.Fatal(err)
		}
		d, err := db.Open(t.Context(), engine, db.Options{})
		if err != nil {
			t.Fatal(err)
		}
		use(d)
		if err := errors.Join(d.Close(), engine.Close()); err != nil {
			t.Fatal(err)
		}
	}
	opened(func(d *db.DB) {
		if r, err := Read(t.Context(), d); err != nil || !reflect.DeepEqual(r, new(Registry)) {
			t.Fatal(r, err)
		}
		if err := Change(t.Context(), d, func(r *Registry) error { *r = *want; return nil }); err != nil {
			t.Fatal(err)
		}
		fault := errors.New("no")
		if err := Change(t.Context(), d, func(r *Registry) error { r.Clusters = nil; return fault }); !errors.Is(err, fault) {
			t.Errorf("a change that fails returns %v", err)
		}
	})
	opened(func(d *db.DB) {
		if got, err := Read(t.Context(), d); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read %+v, %v, want %+v", got, err, want)
		}
	})
}

// Damaged records and those of later versions are errors, and large ones are refused.
func TestStoredRegistries(t *testing.T) {
	for _, stored := range []string{"\x02{}", "\x01{", "\x01[]"} {
		if _, err := decodeRegistry([]byte(stored)); err == nil {
			t.Errorf("%q is read", stored)
		}
	}
	var fault *apierror.Error
	r := &Registry{SubnetGroups: []*SubnetGroup{{Name: strings.Repeat("a", maxRegistryBytes)}}}
	if _, err := encodeRegistry(r); !errors.As(err, &fault) || fault.Code != "ServiceQuotaExceededException" {
		t.Errorf("a record of more than %d bytes: %v", maxRegistryBytes, err)
	}
}

// The latest events are kept, for two weeks.
func TestEventsAreBounded(t *testing.T) {
	r, at := new(Registry), time.Unix(1_700_000_000, 0)
	for i := range maxEvents + 5 {
		r.Add(Event{Message: fmt.Sprint(i), Time: at.Add(time.Duration(i) * time.Second)})
	}
	if len(r.Events) != maxEvents || r.Events[0].Message != "5" {
		t.Errorf("%d events, the first is %v", len(r.Events), r.Events[0])
	}
	r.Add(Event{Message: "late", Time: at.Add(eventAge + time.Hour)})
	if len(r.Events) != 1 {
		t.Errorf("%d events after two weeks, want 1", len(r.Events))
	}
}
