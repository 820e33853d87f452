package keys

import (
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every key, entry, range and object of a tenant has its id in the partition key or
// the folder; and the methods of the zero Tenant panic.
func TestTenantIsInEveryKey(t *testing.T) {
	tenant := NewTenant()
	typ := reflect.TypeOf(tenant)
	tried := 0
	for i := range typ.NumMethod() {
		m := typ.Method(i)
		if m.Type.NumOut() == 0 {
			continue
		}
		switch m.Type.Out(0) {
		case reflect.TypeFor[Key](), reflect.TypeFor[Entry](), reflect.TypeFor[Range](), reflect.TypeFor[Object]():
		default:
			continue
		}
		tried++
		var args []reflect.Value
		for n := 1; n < m.Type.NumIn(); n++ {
			args = append(args, sample(t, m.Type.In(n), tenant))
		}
		got := reflect.ValueOf(tenant).Method(i).Call(args)[0]
		first := got.Field(0)
		if p := got.FieldByName("pk"); p.IsValid() {
			first = p
		}
		if m.Name == "MemberEntry" {
			continue // the list of a person's tenants: its sort key has the tenant
		}
		if !strings.HasPrefix(first.String(), "TENANT#"+tenant.String()) && !strings.HasPrefix(first.String(), "tenants/"+tenant.String()+"/") {
			t.Errorf("%s: %q does not begin with the tenant", m.Name, first)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s makes a key without a tenant", m.Name)
				}
			}()
			reflect.ValueOf(Tenant{}).Method(i).Call(args)
		}()
	}
	if tried < 20 {
		t.Errorf("only %d methods were tried", tried)
	}
}

// sample returns an argument for a method of Tenant.
func sample(t *testing.T, typ reflect.Type, tenant Tenant) reflect.Value {
	t.Helper()
	for _, v := range []any{
		NewID[UserID](), NewID[ProjectID](), NewID[WorkflowID](), NewID[BatchID](), NewID[DocumentID](), NewID[TokenID](),
		"tenants/" + tenant.String() + "/x", time.Unix(0, 0), 7,
	} {
		if reflect.TypeOf(v) == typ {
			return reflect.ValueOf(v)
		}
	}
	t.Fatalf("no sample of %v", typ)
	return reflect.Value{}
}

// ParseTenant is called in few places, each of which is trusted. A new one is added
// here, with the reason.
func TestCallersOfParseTenant(t *testing.T) {
	allowed := map[string]string{
		"keys/tenant.go":          "an item of the table has its tenant",
		"session/session.go":      "a verified token has it",
		"table/invitation.go":     "the secret of the invitation proves it",
		"ingest/ingest.go":        "the bucket's rules decide who writes to a tenant's folder",
		"cmd/documents/tenant.go": "an operator names it",
		"api/people.go":           "the built-in issuer, which trusts every email, looks for a member of it",
	}
	var callers []string
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel("..", path)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if fun := fmt.Sprint(call.Fun); strings.Contains(fun, "ParseTenant") {
				callers = append(callers, filepath.ToSlash(name))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range callers {
		if allowed[c] == "" {
			t.Errorf("%s calls ParseTenant and is not in the list", c)
		}
	}
	for c := range allowed {
		if !slices.Contains(callers, c) {
			t.Errorf("%s is in the list and does not call ParseTenant", c)
		}
	}
}

// Only the canonical form of a UUID is an id, so no other text gets into a key.
func TestForeignIDs(t *testing.T) {
	good := NewID[BatchID]().String()
	for _, text := range []string{
		"", "1", good + "#STATUS#FAILED", "{" + good + "}", "urn:uuid:" + good, strings.ToUpper(good), strings.ReplaceAll(good, "-", ""),
		" " + good, "00000000-0000-0000-0000-000000000000", good[:35] + "#", "../" + good,
	} {
		if _, err := ParseID[BatchID](text); err == nil && text != good {
			t.Errorf("%q is accepted as an id", text)
		}
		if _, err := ParseTenant(text); err == nil {
			t.Errorf("%q is accepted as a tenant", text)
		}
	}
	if _, err := ParseID[BatchID](good); err != nil {
		t.Error(err)
	}
}

// A cursor contains no partition key: with a cursor of another tenant's list the
// next page is still of the own tenant.
func TestCursors(t *testing.T) {
	a, b := NewTenant(), NewTenant()
	batch, doc := NewID[BatchID](), NewID[DocumentID]()
	last := a.Document(batch, doc).Attributes()
	for name, v := range a.DocumentEntry(batch, "FAILED", time.Unix(1, 0)).Attributes() {
		last[name] = v
	}
	cursor := a.DocumentsIn(batch, "FAILED").Cursor(last)
	if strings.Contains(cursor, a.String()) {
		t.Errorf("the cursor %q names the tenant", cursor)
	}
	start, err := b.DocumentsIn(batch, "FAILED").After(cursor, func(sk string) (Key, error) {
		id, err := IDOf[DocumentID]("DOCUMENT#", sk)
		return b.Document(batch, id), err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range start {
		if strings.HasSuffix(name, "PK") && !strings.Contains(text(v), b.String()) {
			t.Errorf("%s is %q", name, text(v))
		}
	}
	for _, wrong := range []string{"x", "|", "2026|x", Time(time.Now()) + "|PROJECT#x", strings.Repeat("x", 5000)} {
		if _, err := b.DocumentsIn(batch, "FAILED").After(wrong, func(sk string) (Key, error) {
			id, err := IDOf[DocumentID]("DOCUMENT#", sk)
			if err != nil {
				return Key{}, err
			}
			return b.Document(batch, id), nil
		}); err == nil {
			t.Errorf("%.50q is accepted as a cursor", wrong)
		}
		if _, err := b.Documents(batch).After(wrong, nil); err == nil {
			t.Errorf("%.50q is accepted as a cursor", wrong)
		}
	}
}

// No text is parsed as an id that contains more than an id.
func FuzzParseID(f *testing.F) {
	f.Add("8c8d9f4e-2f5b-4a53-9d0a-1c6f0c7f2f11")
	f.Add("8c8d9f4e-2f5b-4a53-9d0a-1c6f0c7f2f11#")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseID[BatchID](text)
		if err == nil && (id.String() != text || len(text) != 36 || strings.ContainsAny(text, "#/|")) {
			t.Errorf("%q became %s", text, id)
		}
	})
}
