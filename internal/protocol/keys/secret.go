package keys

import (
	"fmt"
	"log/slog"
)

// Secret is text that is not printed, logged or encoded by accident: only Reveal returns it.
// The text is behind a pointer, since fmt prints unexported members of a struct without
// asking their methods.
type Secret struct{ text *string }

// NewSecret returns a secret.
func NewSecret(text string) Secret { return Secret{&text} }

// hidden is printed in place of a secret.
const hidden = "[secret]"

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty reports whether there is no text.
func (s Secret) Empty() bool { return s.Reveal() == "" }

// String does not return the text.
func (Secret) String() string { return hidden }

// GoString does not return the text.
func (Secret) GoString() string { return hidden }

// Format does not print the text, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// MarshalJSON does not encode the text.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// MarshalText does not encode the text.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalYAML does not encode the text.
func (Secret) MarshalYAML() (any, error) { return hidden, nil }

// LogValue does not return the text.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }
