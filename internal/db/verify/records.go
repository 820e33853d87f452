package verify

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/db/history"
)

// check checks one key. It returns the key to continue at if the rest of the part
// of the keys is to be skipped, and starts the check of changes at the first
// change of a slot.
func (p *part) check(key, value []byte) (skipTo []byte, err error) {
	p.size = 0
	switch key[0] {
	case keyspace.KindCatalog:
		return nil, p.checkTable(key, value)
	case keyspace.KindJob:
		p.checkJob(key, value)
		return nil, nil
	case keyspace.KindScaling:
		p.checkScaling(key, value)
		return nil, nil
	case keyspace.KindDAX:
		p.checkDAX(key, value)
		return nil, nil
	case keyspace.KindMeta:
		p.checkMeta(key, value)
		return nil, nil
	case keyspace.KindToken, keyspace.KindDue:
		return nil, p.checkToken(key, value)
	}
	id, ok := keyspace.TableOf(key)
	if !ok {
		p.fault(KindUnknown, "", key, "the key %x is of no known kind", key)
		return nil, nil
	}
	return p.checkOfTable(id, key, value)
}

// checkOfTable checks a key that belongs to a table.
func (p *part) checkOfTable(id uint32, key, value []byte) (skipTo []byte, err error) {
	t, err := p.table(id)
	if err != nil {
		return nil, err
	}
	kind := key[0]
	switch {
	case kind == keyspace.KindDropped:
		if len(value) != 1 || value[0] != codec.FormatDropped {
			p.fault(KindRecord, "", key, "the marker of dropped table %d has an unknown format", id)
		}
		return nil, nil
	case kind == keyspace.KindDroppedStreams:
		p.checkDropped(id, key, value)
		return nil, nil
	case t.inFlux:
		if kind == keyspace.KindBuild || kind == keyspace.KindItemCount {
			return nil, nil
		}
		return keyspace.PartEnd(key), nil
	case t.Table == nil || t.dropped && kind != keyspace.KindChange:
		if kind == keyspace.KindItemCount {
			p.note(KindCount, "", key, "a count is saved for table %d, which does not exist", id)
			return nil, nil
		}
		p.fault(KindUnknown, "", key, "the key %x belongs to table %d, which does not exist", key, id)
		return nil, nil
	}
	switch kind {
	case keyspace.KindItem:
		return nil, p.checkItemKey(t, key, value)
	case keyspace.KindChange:
		p.w.changes = newSlotCheck(p.w, id, key)
	case keyspace.KindExpiry:
		return nil, p.checkExpiry(t.Table, key, value)
	case keyspace.KindSize:
		return nil, p.checkCollection(t.Table, key, value)
	case keyspace.KindBuild:
		if start, _ := keyspace.IndexSpan(id, 0); !bytes.HasPrefix(value, start) {
			p.fault(KindRecord, t.Name, key, "the progress of the build of index %d is no key of the table", keyspace.IndexOf(key))
		}
	case keyspace.KindItemCount:
		saved, err := codec.DecodeCounts(value)
		if err != nil {
			p.fault(KindCount, t.Name, key, "%v", err)
			return nil, nil
		}
		return nil, p.compareCounts(t.Table, saved)
	}
	return nil, nil
}

// checkToken checks the record of a token, which must have a due entry, or such
// an entry. An entry may be older than the token's last use, so it need not be
// that of the record.
func (p *part) checkToken(key, value []byte) error {
	switch {
	case !keyspace.IsToken(key):
		p.fault(KindToken, "", key, "the key %x does not have the length of a token's", key)
		return nil
	case key[0] == keyspace.KindDue:
		if len(value) != 1 || value[0] != codec.FormatToken {
			p.fault(KindToken, "", key, "the due entry of a token at %x has an unknown format", key)
		}
		return nil
	}
	t, err := codec.DecodeToken(value)
	if err != nil {
		p.fault(KindToken, "", key, "the value at %x: %v", key, err)
		return nil
	}
	due, ok, err := p.get(keyspace.TokenDue(t.At.Add(codec.TokenRetention), key[1:]))
	if ok && due == nil && err == nil {
		p.fault(KindToken, "", key, "the token at %x has no due entry, and would be kept for ever", key)
	}
	return err
}

// formatJob is the format number of the record of a job.
const formatJob = 1

// checkJob checks what all records of jobs have in common.
func (p *part) checkJob(key, value []byte) {
	var job struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	}
	if len(value) == 0 || value[0] != formatJob || json.Unmarshal(value[1:], &job) != nil || job.ID != string(key[1:]) || job.Status == "" {
		p.fault(KindRecord, "", key, "the record of job %q cannot be decoded, or is that of another", key[1:])
	}
}

// formatScaling is the format number of the settings of auto scaling.
const formatScaling = 1

// checkScaling checks that the settings of auto scaling are those of their key.
func (p *part) checkScaling(key, value []byte) {
	var settings struct {
		Resource  string `json:"resource"`
		Dimension string `json:"dimension"`
	}
	if len(value) == 0 || value[0] != formatScaling || json.Unmarshal(value[1:], &settings) != nil ||
		!bytes.Equal(keyspace.Scaling(settings.Resource, settings.Dimension), key) {
		p.fault(KindRecord, "", key, "the settings of auto scaling of %q cannot be decoded, or are those of another resource", key[1:])
	}
}

// formatAccess is the format number of the access keys and principals.
const formatAccess = 1

// formatDAXList is the format number of a list of attribute names of clients of DAX.
const formatDAXList = 1

// formatDAX is the format number of the clusters of DAX.
const formatDAX = 1

// checkDAX checks that the clusters of DAX can be decoded, and have names and nodes.
func (p *part) checkDAX(key, value []byte) {
	var registry struct {
		Clusters []struct {
			Name  string            `json:"name"`
			Nodes []json.RawMessage `json:"nodes"`
		} `json:"clusters"`
	}
	if !bytes.Equal(key, keyspace.DAX()) || len(value) == 0 || value[0] != formatDAX || json.Unmarshal(value[1:], &registry) != nil {
		p.fault(KindRecord, "", key, "the clusters of DAX cannot be decoded")
		return
	}
	for _, c := range registry.Clusters {
		if c.Name == "" || len(c.Nodes) == 0 {
			p.fault(KindRecord, "", key, "the cluster %q of DAX has no name or no nodes", c.Name)
		}
	}
}

// The names of the database's own records. The value of a checkpoint is up to
// the part that saves it.
const (
	metaLastTable  = "last table id"
	metaJobsAdded  = "jobs added"
	metaHorizon    = "horizon"
	metaRuns       = "clock runs"
	metaID         = "database id"
	metaSets       = "backup sets"
	metaCheckpoint = "checkpoint/"
	metaUnits      = "units/"
	metaDAXList    = "dax list/"
	metaAccess     = "access"
)

// metaBytes are the lengths of the values of the database's own records.
var metaBytes = map[string]int{metaLastTable: 4, metaJobsAdded: 8, metaHorizon: 1, metaID: 36, metaSets: 8}

func (p *part) checkMeta(key, value []byte) {
	name := string(key[1:])
	want, known := metaBytes[name]
	switch {
	case strings.HasPrefix(name, metaCheckpoint), strings.HasPrefix(name, metaUnits):
	case strings.HasPrefix(name, metaDAXList):
		if len(name) != len(metaDAXList)+8 || len(value) == 0 || value[0] != formatDAXList {
			p.fault(KindRecord, "", key, "the list of attribute names %x cannot be decoded", name[len(metaDAXList):])
		}
	case name == metaRuns:
		if _, err := history.DecodeRuns(value); err != nil {
			p.fault(KindRecord, "", key, "the record %q cannot be decoded", name)
		}
	case name == metaAccess:
		if len(value) == 0 || value[0] != formatAccess || !json.Valid(value[1:]) {
			p.fault(KindRecord, "", key, "the access keys and principals cannot be decoded")
		}
	case !known:
		p.fault(KindUnknown, "", key, "the record %q is not known", name)
	case len(value) != want:
		p.fault(KindRecord, "", key, "the record %q has %d bytes, not %d", name, len(value), want)
	}
}

// number decodes a big-endian number of 4 or 8 bytes.
func number(b []byte) uint64 {
	if len(b) == 4 {
		return uint64(binary.BigEndian.Uint32(b))
	}
	return binary.BigEndian.Uint64(b)
}
