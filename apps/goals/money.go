package goals

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Money is an amount in cents. It is encoded as a decimal number, never as a float.
type Money int64

// MaxMoney is the maximum amount, ten billion.
const MaxMoney Money = 1_000_000_000_000

// Rate is a yearly interest rate in hundredths of a per cent: 800 is 8 %.
type Rate int64

// ParseMoney parses a decimal number with at most two decimal places. It must not be
// negative.
func ParseMoney(s string) (Money, error) {
	n, err := parseDecimal(s, 2)
	if err != nil || Money(n) > MaxMoney {
		return 0, fmt.Errorf("%.40q is not an amount: it must be 0 to %s with at most two decimal places", s, MaxMoney)
	}
	return Money(n), nil
}

// ParseRate parses a rate such as 0.08, with at most four decimal places.
func ParseRate(s string) (Rate, error) {
	n, err := parseDecimal(s, 4)
	if err != nil || n > 10_000 {
		return 0, fmt.Errorf("%.40q is not a rate: it must be 0 to 1 with at most four decimal places", s)
	}
	return Rate(n), nil
}

// parseDecimal parses digits, a point and at most scale digits as an integer of the
// smallest unit.
func parseDecimal(s string, scale int) (int64, error) {
	whole, fraction, point := strings.Cut(s, ".")
	if whole == "" || len(whole) > 15 || point && (fraction == "" || len(fraction) > scale) {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseUint(whole+fraction+strings.Repeat("0", scale-len(fraction)), 10, 63)
	return int64(n), err
}

// decimal is the inverse of parseDecimal.
func decimal(n int64, scale int) string {
	s := fmt.Sprintf("%0*d", scale+1, n)
	return s[:len(s)-scale] + "." + s[len(s)-scale:]
}

func (m Money) String() string { return decimal(int64(m), 2) }
func (r Rate) String() string  { return decimal(int64(r), 4) }

// MarshalJSON implements json.Marshaler.
func (m Money) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// MarshalJSON implements json.Marshaler.
func (r Rate) MarshalJSON() ([]byte, error) {
	return []byte(strings.TrimSuffix(strings.TrimRight(r.String(), "0"), ".")), nil
}

// UnmarshalJSON accepts a number, or a string with a number in it.
func (m *Money) UnmarshalJSON(b []byte) error {
	s := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
	}
	var err error
	*m, err = ParseMoney(s)
	return err
}

// UnmarshalJSON accepts a number, or a string with a number in it.
func (r *Rate) UnmarshalJSON(b []byte) error {
	s := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
	}
	var err error
	*r, err = ParseRate(s)
	return err
}

// MarshalDynamoDBAttributeValue implements attributevalue.Marshaler.
func (m Money) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return &types.AttributeValueMemberN{Value: m.String()}, nil
}

// MarshalDynamoDBAttributeValue implements attributevalue.Marshaler.
func (r Rate) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return &types.AttributeValueMemberN{Value: r.String()}, nil
}

// UnmarshalDynamoDBAttributeValue implements attributevalue.Unmarshaler.
func (m *Money) UnmarshalDynamoDBAttributeValue(v types.AttributeValue) error {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return fmt.Errorf("an amount is stored as %T, not as a number", v)
	}
	var err error
	*m, err = ParseMoney(n.Value)
	return err
}

// UnmarshalDynamoDBAttributeValue implements attributevalue.Unmarshaler.
func (r *Rate) UnmarshalDynamoDBAttributeValue(v types.AttributeValue) error {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return fmt.Errorf("a rate is stored as %T, not as a number", v)
	}
	var err error
	*r, err = ParseRate(n.Value)
	return err
}
