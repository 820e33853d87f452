package ops

import (
	"fmt"
	"strings"
	"testing"
)

const tableABC = "arn:aws:dynamodb:us-east-1:000000000000:table/abc"

func TestTags(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.make(plainTable("abc", `"Tags":[{"Key":"a","Value":"1"}]`))
	list := func(want string) {
		t.Helper()
		tt.want("ListTagsOfResource", `{"ResourceArn":"`+tableABC+`"}`, `{"Tags":[`+want+`]}`)
	}
	list(`{"Key":"a","Value":"1"}`)
	tt.want("TagResource", `{"ResourceArn":"`+tableABC+`","Tags":[{"Key":"b","Value":""},{"Key":"a","Value":"é 2"}]}`, ``)
	list(`{"Key":"a","Value":"é 2"},{"Key":"b","Value":""}`)
	tt.want("UntagResource", `{"ResourceArn":"`+tableABC+`","TagKeys":["a","none"]}`, ``)
	list(`{"Key":"b","Value":""}`)
	tt.want("UntagResource", `{"ResourceArn":"`+tableABC+`","TagKeys":["b"]}`, ``)
	list(``)
}

func TestTagFaults(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.s.account = "123456789012"
	tt.make(plainTable("abc"))
	own := strings.Replace(tableABC, "000000000000", tt.s.account, 1)
	var many []string
	for i := range 51 {
		many = append(many, fmt.Sprintf(`{"Key":"k%d","Value":""}`, i))
	}
	for _, c := range []struct{ name, operation, request, want string }{
		{"no ARN", "TagResource", `{}`, "ValidationException: Invalid TableArn"},
		{"not an ARN", "ListTagsOfResource", `{"ResourceArn":"abc"}`, "ValidationException: One or more parameter values were invalid: ARNs must start with 'arn:': abc"},
		{"half an ARN", "ListTagsOfResource", `{"ResourceArn":"arn:aws:dynamodb"}`,
			"ValidationException: One or more parameter values were invalid: Third colon vendor not found: arn:aws:dynamodb"},
		{"another service", "ListTagsOfResource", `{"ResourceArn":"arn:aws:s3:us-east-1:123456789012:table/abc"}`,
			"ValidationException: One or more parameter values were invalid: Provided Arn is not a DynamoDB resource arn: arn:aws:s3:us-east-1:123456789012:table/abc"},
		{"an index", "ListTagsOfResource", `{"ResourceArn":"` + own + `/index/x"}`,
			"ValidationException: One or more parameter values were invalid: Invalid resource arn provided, only table or stream is accepted. Provided resource arn: " + own + "/index/x"},
		{"another account", "ListTagsOfResource", `{"ResourceArn":"` + tableABC + `"}`, "AccessDeniedException: Access is denied"},
		{"another region", "ListTagsOfResource", `{"ResourceArn":"arn:aws:dynamodb:eu-west-2:123456789012:table/abc"}`,
			"ValidationException: Invalid TableArn: Invalid ResourceArn provided as input arn:aws:dynamodb:eu-west-2:123456789012:table/abc"},
		{"no such table", "ListTagsOfResource", `{"ResourceArn":"` + own + `d"}`,
			"ResourceNotFoundException: Requested resource not found: ResourceArn: " + own + "d not found"},
		{"no list of tags", "TagResource", `{"ResourceArn":"` + own + `"}`,
			"ValidationException: 1 validation error detected: Value null at 'tags' failed to satisfy constraint: Member must not be null"},
		{"no tags", "TagResource", `{"ResourceArn":"` + own + `d","Tags":[]}`, "ValidationException: Atleast one Tag needs to be provided as Input."},
		{"no keys", "UntagResource", `{"ResourceArn":"` + own + `d","TagKeys":[]}`, "ValidationException: Atleast one Tag Key needs to be provided as Input."},
		{"no value", "TagResource", `{"ResourceArn":"` + own + `","Tags":[{"Key":"k"}]}`, "ValidationException: The Tag Value provided is invalid, Value: null"},
		{"a forbidden character", "TagResource", `{"ResourceArn":"` + own + `","Tags":[{"Key":"k","Value":"100%"}]}`,
			"ValidationException: The Tag Value provided is invalid, Value: 100%"},
		{"an empty key", "UntagResource", `{"ResourceArn":"` + own + `","TagKeys":[""]}`, "ValidationException: The Tag Key provided is invalid, Key: "},
		{"a key twice", "TagResource", `{"ResourceArn":"` + own + `","Tags":[{"Key":"k","Value":"1"},{"Key":"k","Value":"1"}]}`,
			"ValidationException: Duplicate Tag Keys provided as input: Duplicate Tag Key found k"},
		{"too many tags", "TagResource", `{"ResourceArn":"` + own + `","Tags":[` + strings.Join(many, ",") + `]}`,
			"ValidationException: Number of Tags exceed the current limit for the provided ResourceArn"},
	} {
		t.Run(c.name, func(t *testing.T) { tt.in(t).want(c.operation, c.request, c.want) })
	}
}

func TestTagsAddUpToFifty(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.make(plainTable("abc"))
	tag := func(from, n int) string {
		var tags []string
		for i := range n {
			tags = append(tags, fmt.Sprintf(`{"Key":"k%d","Value":""}`, from+i))
		}
		return `{"ResourceArn":"` + tableABC + `","Tags":[` + strings.Join(tags, ",") + `]}`
	}
	tt.want("TagResource", tag(0, 49), ``)
	tt.want("TagResource", tag(48, 3), "ValidationException: Number of Tags exceed the current limit for the provided ResourceArn")
	tt.want("TagResource", tag(48, 2), ``)
}

// If the server's own account is 000000000000, a table that it does not have is
// treated as another account's.
func TestZeroAccountDeniesMissingTables(t *testing.T) {
	newTableTest(t, 0).want("ListTagsOfResource", `{"ResourceArn":"arn:aws:dynamodb:eu-west-2:000000000000:table/none"}`,
		"AccessDeniedException: Access is denied")
}
