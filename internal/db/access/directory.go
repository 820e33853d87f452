package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/protocol/keys"
	"github.com/stator-db/stator/internal/protocol/principals"
)

// directory is what is stored, in one record, so that all servers see a change of keys and
// principals as a whole (docs/formats/access.md).
type directory struct {
	Revision   int64 // of the last change
	Keys       []*keys.Key
	Principals []*storedPrincipal // in order of their ARNs
}

// storedPrincipal is a principal with the revision that has changed it.
type storedPrincipal struct {
	principals.Definition
	Revision int64 `json:"revision"`
}

func (d *directory) definitions() []principals.Definition {
	list := make([]principals.Definition, 0, len(d.Principals))
	for _, p := range d.Principals {
		list = append(list, p.Definition)
	}
	return list
}

// principal returns the index of a principal, and whether there is one.
func (d *directory) principal(arn string) (int, bool) {
	return slices.BinarySearchFunc(d.Principals, arn, func(p *storedPrincipal, arn string) int { return strings.Compare(p.ARN, arn) })
}

// directoryForm is the JSON of a directory. Only here keys have their secrets in plain text.
type directoryForm struct {
	Revision   int64              `json:"revision"`
	Keys       []keyForm          `json:"keys,omitempty"`
	Principals []*storedPrincipal `json:"principals,omitempty"`
}

type keyForm struct {
	AccessKey string    `json:"accessKey"`
	Secret    string    `json:"secret"`
	Principal string    `json:"principal"`
	Created   time.Time `json:"created"`
	Comment   string    `json:"comment,omitempty"`
}

const (
	formatDirectory = 1
	// maxDirectoryBytes is the largest record.
	maxDirectoryBytes = 2 << 20
)

func encodeDirectory(d *directory) ([]byte, error) {
	form := directoryForm{Revision: d.Revision, Principals: d.Principals}
	for _, k := range d.Keys {
		form.Keys = append(form.Keys, keyForm{k.AccessKey, k.Secret.Reveal(), k.Principal, k.Created, k.Comment})
	}
	text := bytes.NewBuffer([]byte{formatDirectory})
	out := json.NewEncoder(text)
	out.SetEscapeHTML(false)
	if err := out.Encode(form); err != nil {
		return nil, errors.New("the access keys and principals cannot be encoded as JSON") // the cause may have a secret
	}
	if text.Len() > maxDirectoryBytes {
		return nil, apierror.LimitExceeded("All access keys and principals in the database can have at most %d bytes.", maxDirectoryBytes)
	}
	return text.Bytes(), nil
}

// errUnreadable is returned for a record that cannot be decoded.
var errUnreadable = errors.New("the access keys and principals in the database cannot be read")

func decodeDirectory(stored []byte) (*directory, error) {
	d := new(directory)
	if len(stored) == 0 {
		return d, nil
	}
	if stored[0] != formatDirectory {
		return nil, fmt.Errorf("%w: they have the unknown format %d, of a later version", errUnreadable, stored[0])
	}
	var form *directoryForm
	if json.Unmarshal(stored[1:], &form) != nil || form == nil || !form.isComplete() {
		return nil, fmt.Errorf("%w: they are corrupt", errUnreadable) // the cause may have a secret
	}
	d.Revision, d.Principals = form.Revision, form.Principals
	for _, k := range form.Keys {
		d.Keys = append(d.Keys, &keys.Key{AccessKey: k.AccessKey, Secret: keys.NewSecret(k.Secret), Principal: k.Principal, Created: k.Created, Comment: k.Comment})
	}
	return d, nil
}

// isComplete reports whether all keys have what a signature is verified with, and all principals are
// there and in order. A key without a secret would be everybody's.
func (f *directoryForm) isComplete() bool {
	seen := make(map[string]bool, len(f.Keys))
	for _, k := range f.Keys {
		if k.AccessKey == "" || k.Secret == "" || keys.CheckPrincipal(k.Principal) != "" || seen[k.AccessKey] {
			return false
		}
		seen[k.AccessKey] = true
	}
	for i, p := range f.Principals {
		if p == nil || i > 0 && f.Principals[i-1].ARN >= p.ARN {
			return false
		}
	}
	return true
}
