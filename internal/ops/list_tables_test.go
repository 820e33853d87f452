package ops

import "testing"

func TestListTables(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.want("ListTables", `{}`, `{"TableNames":[]}`)
	for _, name := range []string{"bbb", "aaa", "Zzz"} {
		tt.make(plainTable(name))
	}
	for _, c := range []struct{ name, request, want string }{
		{"names are ordered by their bytes", `{}`, `{"TableNames":["Zzz","aaa","bbb"]}`},
		{"a page has LastEvaluatedTableName", `{"Limit":2}`, `{"LastEvaluatedTableName":"aaa","TableNames":["Zzz","aaa"]}`},
		{"the last page does not have it", `{"Limit":3}`, `{"TableNames":["Zzz","aaa","bbb"]}`},
		{"a page begins after a name", `{"ExclusiveStartTableName":"aaa"}`, `{"TableNames":["bbb"]}`},
		{"the name need not be a table's", `{"ExclusiveStartTableName":"abc"}`, `{"TableNames":["bbb"]}`},
		{"the limit is at least one", `{"Limit":0}`,
			"ValidationException: 1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1"},
		{"the limit is at most a hundred", `{"Limit":101}`,
			"ValidationException: 1 validation error detected: Value '101' at 'limit' failed to satisfy constraint: Member must have value less than or equal to 100"},
	} {
		t.Run(c.name, func(t *testing.T) { tt.in(t).want("ListTables", c.request, c.want) })
	}
}
