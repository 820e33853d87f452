package code

// snippet is a declaration that generated code contains if it is used.
type snippet struct {
	text    string
	imports []string
	needs   []string // other snippets
}

// goSnippets are what generated Go code is built on, by name.
var goSnippets = map[string]snippet{
	"Number": {imports: []string{"strconv"}, text: `
// Number is a number in decimal digits, as the table stores it: up to 38 of
// them, without exponent, and without zeros that do not count.
type Number string

// Int returns an integer as a Number.
func Int(n int64) Number { return Number(strconv.FormatInt(n, 10)) }

// Int64 returns the number as an integer.
func (n Number) Int64() (int64, error) { return strconv.ParseInt(string(n), 10, 64) }

// Float64 returns the number that is nearest to n.
func (n Number) Float64() (float64, error) { return strconv.ParseFloat(string(n), 64) }
`},
	"Page": {text: `
// Page is a page of a query. Next is where the next page starts; it is nil
// after the last one.
type Page[T any] struct {
	Items []T
	Next  Key
}
`},
	"Position": {text: `
// Position is where the next page of a shard starts: at its beginning, which is
// the zero value, or after a key. A shard without more pages is finished.
type Position struct {
	After    Key
	Finished bool
}

// positionAfter returns the position after a page.
func positionAfter(key Key) Position { return Position{After: key, Finished: len(key) == 0} }

// ShardQuery is the request of one shard.
type ShardQuery struct {
	Shard int
	Input *dynamodb.QueryInput
}
`},
	"ShardPage": {needs: []string{"Position"}, text: `
// ShardPage is a page of one shard. Next is where the next page starts.
type ShardPage[T any] struct {
	Items []T
	Next  Position
}
`},
	"keyPart": {imports: []string{"errors", "strings"}, text: `
// keyPart returns an error if a value cannot be a part of a key: it must not be
// empty, and it must end before next, which follows it in the key, and before the
// texts that follow such a value in other keys.
func keyPart(name, key, value, next string, others ...string) error {
	if value == "" {
		return errors.New(name + " must not be empty: it is a part of " + key)
	}
	for _, end := range append(others, next) {
		if i := strings.Index(value+next, end); end == "" || i < 0 || i >= len(value) {
			continue
		}
		if !strings.Contains(value, end) {
			return errors.New(name + " must not end with a part of \"" + end + "\", which ends it in " + key)
		}
		return errors.New(name + " must not contain \"" + end + "\", which ends it in " + key)
	}
	return nil
}
`},
	"keyBound": {imports: []string{"errors", "strings"}, text: `
// keyBound returns an error if an end of a range contains a text that ends such
// values in a key.
func keyBound(name, key, value string, ends ...string) error {
	for _, end := range ends {
		if strings.Contains(value, end) {
			return errors.New(name + " must not contain \"" + end + "\", which ends it in " + key)
		}
	}
	return nil
}
`},
	"addedSet": {imports: []string{"errors"}, text: `
// addedSet returns an error if a set that is added to an attribute is empty.
func addedSet(name string, n int) error {
	if n == 0 {
		return errors.New("the set that is added to " + name + " must not be empty")
	}
	return nil
}
`},
	"updateExpression": {imports: []string{"strings"}, text: `
// updateClause is one change of an UpdateExpression.
type updateClause struct{ section, text string }

// setClause sets an attribute to a set with n members, or removes it if the set
// is empty.
func setClause(name, value string, n int) updateClause {
	if n == 0 {
		return updateClause{"REMOVE", name}
	}
	return updateClause{"SET", name + " = " + value}
}

func updateExpression(clauses ...updateClause) string {
	var all []string
	for _, section := range []string{"SET", "REMOVE", "ADD"} {
		var texts []string
		for _, c := range clauses {
			if c.section == section {
				texts = append(texts, c.text)
			}
		}
		if len(texts) > 0 {
			all = append(all, section+" "+strings.Join(texts, ", "))
		}
	}
	return strings.Join(all, " ")
}

// withoutEmptySets removes those of the named values that are empty sets. It
// returns nil if no value is left.
func withoutEmptySets(values map[string]types.AttributeValue, names ...string) map[string]types.AttributeValue {
	for _, name := range names {
		n := 1
		switch v := values[name].(type) {
		case *types.AttributeValueMemberSS:
			n = len(v.Value)
		case *types.AttributeValueMemberNS:
			n = len(v.Value)
		case *types.AttributeValueMemberBS:
			n = len(v.Value)
		}
		if n == 0 {
			delete(values, name)
		}
	}
	if len(values) == 0 {
		return nil
	}
	return values
}
`},
	"strangeItem": {imports: []string{"fmt"}, needs: []string{"isText"}, text: `
// strangeItem is the error of an item that is of none of the expected entities.
func strangeItem(it map[string]types.AttributeValue, key ...string) error {
	text := "an item is of no entity that the model expects here:"
	for _, name := range key {
		value, _ := isText(it[name])
		text += fmt.Sprintf(" %s %q", name, value)
	}
	return fmt.Errorf("%s", text)
}
`},
	"padded": {imports: []string{"fmt"}, text: `
// padded returns a shard number as keys contain it.
func padded(n, width int) string { return fmt.Sprintf("%0*d", width, n) }
`},
	"shardOf": {imports: []string{"hash/fnv"}, text: `
// shardOf returns the shard of a text.
func shardOf(text string, shards uint64) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return int(h.Sum64() % shards)
}
`},
	"texts": {needs: []string{"Number"}, text: `
// texts returns the members of a set of numbers.
func texts(numbers []Number) []string {
	all := make([]string, len(numbers))
	for i, n := range numbers {
		all[i] = string(n)
	}
	return all
}
`},
	"cut": {imports: []string{"strings"}, text: `
// cut returns the texts between the pieces of a template. It reports whether
// the text has been made from that template.
func cut(text string, pieces ...string) (between []string, ok bool) {
	text, ok = strings.CutPrefix(text, pieces[0])
	for i, piece := range pieces[1:] {
		if !ok {
			return nil, false
		}
		var part string
		if i == len(pieces)-2 {
			part, ok = strings.CutSuffix(text, piece)
			text = ""
		} else {
			part, text, ok = strings.Cut(text, piece)
		}
		ok = ok && part != ""
		between = append(between, part)
	}
	return between, ok && text == ""
}
`},
	"tooMany": {imports: []string{"fmt"}, text: `
// tooMany is the error of a list that is longer than the model allows.
func tooMany(what string, n, most int) error {
	return fmt.Errorf("%d %s are too many: the limit is %d", n, what, most)
}
`},
	"isText": {text: `
// isText returns a key attribute that is a string.
func isText(v types.AttributeValue) (string, bool) {
	s, ok := v.(*types.AttributeValueMemberS)
	if !ok {
		return "", false
	}
	return s.Value, true
}
`},
	"itemReader": {imports: []string{"fmt"}, text: `
// itemReader reads the attributes of an item and keeps the first error.
type itemReader struct {
	item map[string]types.AttributeValue
	err  error
}

func (r *itemReader) has(name string) bool { return r.item[name] != nil }

// read returns an attribute of the type T.
func read[T types.AttributeValue](r *itemReader, name string) (v T) {
	v, ok := r.item[name].(T)
	if !ok && r.err == nil {
		r.err = fmt.Errorf("the attribute %s is %T, not %T", name, r.item[name], v)
	}
	return v
}
`},
	"readText": {needs: []string{"itemReader"}, text: `
func (r *itemReader) text(name string) string {
	if v := read[*types.AttributeValueMemberS](r, name); v != nil {
		return v.Value
	}
	return ""
}
`},
	"readNumber": {needs: []string{"itemReader", "Number"}, text: `
func (r *itemReader) number(name string) Number {
	if v := read[*types.AttributeValueMemberN](r, name); v != nil {
		return Number(v.Value)
	}
	return ""
}
`},
	"readBinary": {needs: []string{"itemReader"}, text: `
func (r *itemReader) binary(name string) []byte {
	if v := read[*types.AttributeValueMemberB](r, name); v != nil {
		return v.Value
	}
	return nil
}
`},
	"readBool": {needs: []string{"itemReader"}, text: `
func (r *itemReader) bool(name string) bool {
	v := read[*types.AttributeValueMemberBOOL](r, name)
	return v != nil && v.Value
}
`},
	"readTexts": {needs: []string{"itemReader"}, text: `
func (r *itemReader) texts(name string) []string {
	if v := read[*types.AttributeValueMemberSS](r, name); v != nil {
		return v.Value
	}
	return nil
}
`},
	"readNumbers": {needs: []string{"itemReader", "Number"}, text: `
func (r *itemReader) numbers(name string) (all []Number) {
	if v := read[*types.AttributeValueMemberNS](r, name); v != nil {
		for _, n := range v.Value {
			all = append(all, Number(n))
		}
	}
	return all
}
`},
	"readBinaries": {needs: []string{"itemReader"}, text: `
func (r *itemReader) binaries(name string) [][]byte {
	if v := read[*types.AttributeValueMemberBS](r, name); v != nil {
		return v.Value
	}
	return nil
}
`},
	"readList": {needs: []string{"itemReader"}, text: `
func (r *itemReader) list(name string) []types.AttributeValue {
	if v := read[*types.AttributeValueMemberL](r, name); v != nil {
		return v.Value
	}
	return nil
}
`},
	"readMap": {needs: []string{"itemReader"}, text: `
func (r *itemReader) attributes(name string) map[string]types.AttributeValue {
	if v := read[*types.AttributeValueMemberM](r, name); v != nil {
		return v.Value
	}
	return nil
}
`},
	"readPart": {needs: []string{"itemReader", "readText", "cut"}, imports: []string{"fmt"}, text: `
// part returns the text that stands after the i-th piece of a template.
func (r *itemReader) part(name string, i int, pieces ...string) string {
	if !r.has(name) {
		return ""
	}
	between, ok := cut(r.text(name), pieces...)
	if !ok {
		if r.err == nil {
			r.err = fmt.Errorf("the attribute %s is not of its form in the model", name)
		}
		return ""
	}
	return between[i]
}
`},
	"readShard": {needs: []string{"readPart"}, imports: []string{"strconv"}, text: `
// shard returns the shard number in a text, 0 if the text is empty.
func (r *itemReader) shard(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil && text != "" && r.err == nil {
		r.err = err
	}
	return n
}
`},
	"pointer": {text: `
// pointer returns a pointer to a value.
func pointer[T any](v T) *T { return &v }
`},
	"errors": {imports: []string{"errors"}},
	"slices": {imports: []string{"slices"}},
	"decodeAll": {text: `
// decodeAll decodes items with a function.
func decodeAll[T any](items []map[string]types.AttributeValue, decode func(map[string]types.AttributeValue) (T, error)) ([]T, error) {
	all := make([]T, 0, len(items))
	for _, it := range items {
		e, err := decode(it)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}
`},
	"decodeOne": {text: `
// decodeOne decodes an item that may be absent.
func decodeOne[T any](it map[string]types.AttributeValue, decode func(map[string]types.AttributeValue) (T, error)) (*T, error) {
	if len(it) == 0 {
		return nil, nil
	}
	e, err := decode(it)
	if err != nil {
		return nil, err
	}
	return &e, nil
}
`},
}
