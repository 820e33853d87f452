package policy

// Rule is a rule of Check.
type Rule struct{ Name, Description string }

// Rules are the rules of Check.
var Rules = []Rule{
	{"unknown-action", "An action of DynamoDB, DAX or stator does not exist."},
	{"other-service", "An action belongs to a service that stator does not have."},
	{"wildcard-action", "A wildcard allows actions of several access levels, or on several subjects."},
	{"wildcard-resource", "A wildcard in the name of a table matches other tables, and what belongs to them."},
	{"not-action", "An Allow with NotAction allows all other actions."},
	{"not-resource", "An Allow with NotResource allows all other resources."},
	{"not-principal", "A Deny with NotPrincipal denies principals that are listed, if they have a boundary."},
	{"never-matches", "A statement matches no request."},
	{"resource-type", "Some actions are never asked for on the resources of their statement."},
	{"unknown-key", "A condition key or variable does not exist."},
	{"absent-key", "Requests to stator never have a condition key or variable."},
	{"for-all-values", "An Allow with ForAllValues allows actions that never have the key."},
	{"key-missing", "A condition holds for actions that never have its key."},
	{"key-of-other-action", "A condition excludes actions of its statement, because they never have its key."},
	{"several-values", "An operator without ForAllValues or ForAnyValue is used with a key that can have several values."},
	{"one-value", "ForAllValues or ForAnyValue is used with a key of one value."},
	{"contradiction", "Two conditions cannot both hold."},
	{"empty-values", "A condition has no values."},
	{"attributes", "A restriction of attributes does not restrict what is returned."},
	{"literal-variable", "A variable is literal text in an old version of the language."},
	{"shadowed", "A Deny without conditions covers an Allow."},
	{"duplicate", "Two statements are the same."},
	{"resource-policy", "A resource policy has an action that it cannot have."},
	{"unbounded", "A resource policy allows everyone."},
}
