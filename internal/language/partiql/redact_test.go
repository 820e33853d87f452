package partiql

import "testing"

func TestRedact(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`SELECT * FROM "Orders" WHERE id = 'secret' AND n > 1.5`, `SELECT * FROM "Orders" WHERE id = ***(Redacted) AND n > ***(Redacted)`},
		{`INSERT INTO Orders VALUE {'id': 'a''b', 'ok': true, 'l': [1, ?]}`, `INSERT INTO Orders VALUE {***(Redacted): ***(Redacted), ***(Redacted): ***(Redacted), ***(Redacted): [***(Redacted), ?]}`},
		{"SELECT a -- secret\nFROM b", "SELECT a FROM b"},
		{"SELECT a /* secret */ FROM b ", "SELECT a FROM b"},
		{"SELECT 'secret", redacted},
		{"SELECT `2020T`", "SELECT " + redacted},
		{"", ""},
	} {
		if got := Redact(c.text); got != c.want {
			t.Errorf("%q:\n%s\nwant\n%s", c.text, got, c.want)
		}
	}
}
