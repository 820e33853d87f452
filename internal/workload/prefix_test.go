package workload

import "testing"

// A prefix consists of the letters before a separator, or of a whole upper-case word;
// whatever may be a customer's data has none.
func TestPrefix(t *testing.T) {
	for value, want := range map[string]string{
		"ORDER#17":                   "ORDER#",
		"order:17":                   "order:",
		"C#1#O#2":                    "C#",
		"ORDER_ITEM|9":               "ORDER_ITEM|",
		"users/alice":                "users/",
		"PROFILE":                    "PROFILE",
		"ORDER#":                     "ORDER#",
		"#META#17":                   "#META#",
		"#PROFILE":                   "#PROFILE",
		"":                           "",
		"#":                          "",
		"##":                         "",
		"alice":                      "",
		"Profile":                    "",
		"17":                         "",
		"ORDER17#":                   "",
		"alice@example.org":          "",
		"Ann Smith#1":                "",
		"0199f0a1-aaaa":              "",
		"ORDER-17":                   "",
		"ABCDEFGHIJKLMNOPQRSTUVWX":   "ABCDEFGHIJKLMNOPQRSTUVWX",
		"ABCDEFGHIJKLMNOPQRSTUVWXY":  "",
		"ABCDEFGHIJKLMNOPQRSTUVW#1":  "ABCDEFGHIJKLMNOPQRSTUVW#",
		"ABCDEFGHIJKLMNOPQRSTUVWX#1": "",
		"ÄRGER#1":                    "",
	} {
		if got := string(Prefix([]byte(value))); got != want {
			t.Errorf("Prefix(%q) = %q, want %q", value, got, want)
		}
	}
}

// The prefix of a template matches that of all its values, and of no other entity.
func TestKeyPrefixMatches(t *testing.T) {
	for _, c := range []struct {
		key      KeyPrefix
		prefix   string
		ok, sure bool
	}{
		{KeyPrefix{Literal: "C#"}, "C#", true, true},
		{KeyPrefix{Literal: "C#"}, "O#", false, true},
		{KeyPrefix{Literal: "C#"}, "", false, true},
		{KeyPrefix{Literal: "C#"}, Unknown, true, false},
		{KeyPrefix{Literal: "C#A#"}, "C#", true, true},
		{KeyPrefix{Literal: "PROFILE", Whole: true}, "PROFILE", true, true},
		{KeyPrefix{Literal: "PROFILE", Whole: true}, "", false, true},
		{KeyPrefix{Literal: "profile", Whole: true}, "", true, false},
		{KeyPrefix{}, "", true, false},
		{KeyPrefix{}, "C#", true, false},
		{KeyPrefix{Literal: "V1#"}, "", true, false},
		{KeyPrefix{Literal: "V1#"}, "V#", false, false},
		{KeyPrefix{Literal: "user-"}, "", true, false},
		{KeyPrefix{Literal: "user_"}, "", true, false},
		{KeyPrefix{Literal: "user_"}, "user_a:", true, true},
		{KeyPrefix{Literal: "user_"}, "C#", false, true},
		{KeyPrefix{Literal: "#META"}, "#META#", true, true},
		{KeyPrefix{Literal: "ORDER#", Begins: true}, "ORDER", true, true},
		{KeyPrefix{Literal: "ORDER#", Begins: true}, "O", true, true},
		{KeyPrefix{Literal: "ORDER#"}, "ORDER", false, true},
	} {
		if ok, sure := c.key.Matches(c.prefix); ok != c.ok || sure != c.sure {
			t.Errorf("%+v.Matches(%q) = %t, %t, want %t, %t", c.key, c.prefix, ok, sure, c.ok, c.sure)
		}
	}
}

// Every value of a template has a prefix that the template matches.
func FuzzKeyPrefix(f *testing.F) {
	f.Add("C#", "1")
	f.Add("user_", "A")
	f.Add("#", "A#")
	f.Add("", "B|")
	f.Add("V1", "#")
	f.Fuzz(func(t *testing.T, literal, rest string) {
		p := string(Prefix([]byte(literal + rest)))
		if ok, _ := (KeyPrefix{Literal: literal}).Matches(p); !ok {
			t.Errorf("%q has the prefix %q, which %q does not match", literal+rest, p, literal)
		}
		if ok, _ := (KeyPrefix{Literal: literal, Whole: true}).Matches(string(Prefix([]byte(literal)))); !ok {
			t.Errorf("%q does not match its own prefix", literal)
		}
	})
}
