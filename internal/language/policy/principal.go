package policy

import (
	"fmt"
	"strings"
)

// PrincipalKind is what makes a request.
type PrincipalKind int

// The kinds of principals.
const (
	User PrincipalKind = iota
	AssumedRole
	Root // the root user of an account
)

// Principal makes a request. NewPrincipal reads one from its ARN.
type Principal struct {
	ARN     string
	Account string
	Kind    PrincipalKind
	RoleARN string // of an assumed role
	Name    string // of a user or a role, without its path
}

// NewPrincipal reads the ARN of a user, of the root user, or of a session of a role.
// The ARN of a session does not have the path of its role; roleARN is the role's, or
// empty for a role without a path.
func NewPrincipal(arn, roleARN string) (*Principal, error) {
	fields, ok := splitARN(arn)
	service, account, id := fields[2], fields[4], fields[5]
	p := &Principal{ARN: arn, Account: account}
	kind, path, _ := strings.Cut(id, "/")
	switch {
	case !ok || !isAccount(account) || fields[3] != "":
	case service == "iam" && id == "root":
		p.Kind = Root
		return p, nil
	case service == "iam" && kind == "user" && path != "" && !strings.HasSuffix(path, "/"):
		p.Name = path[strings.LastIndexByte(path, '/')+1:]
		return p, nil
	case service == "sts" && kind == "assumed-role":
		role, session, _ := strings.Cut(path, "/")
		if role == "" || session == "" || strings.Contains(session, "/") {
			break
		}
		p.Kind, p.Name, p.RoleARN = AssumedRole, role, roleARN
		if roleARN == "" {
			p.RoleARN = "arn:" + fields[1] + ":iam::" + account + ":role/" + role
		}
		return p, nil
	}
	return nil, fmt.Errorf("%q is not the ARN of a principal: use arn:aws:iam::123456789012:user/NAME, arn:aws:sts::123456789012:assumed-role/ROLE/SESSION, or arn:aws:iam::123456789012:root", arn)
}

// Lookup returns the values of the condition keys that depend on the principal alone:
// aws:PrincipalArn, aws:PrincipalAccount, aws:PrincipalType and aws:username.
func (p *Principal) Lookup(key string) Values {
	switch key {
	case "aws:principalarn":
		if p.Kind == AssumedRole {
			return One(p.RoleARN)
		}
		return One(p.ARN)
	case "aws:principalaccount":
		return One(p.Account)
	case "aws:principaltype":
		return One([...]string{"User", "AssumedRole", "Account"}[p.Kind])
	case "aws:username":
		if p.Kind == User {
			return One(p.Name)
		}
	}
	return Values{}
}

func isAccount(s string) bool { return len(s) == 12 && isDigits(s) }

// PrincipalName is an entry of the Principal of a statement.
type PrincipalName struct {
	Position
	Type string // AWS, Service, Federated or CanonicalUser; empty for "Principal": "*"
	Text string

	account string // of an account id or the ARN of an account's root
}

// everyone reports whether the entry stands for all principals.
func (n *PrincipalName) everyone() bool { return n.Text == "*" && (n.Type == "" || n.Type == "AWS") }

// newPrincipalName checks an entry.
func newPrincipalName(at Position, kind, text string) (n PrincipalName, fault string) {
	n = PrincipalName{Position: at, Type: kind, Text: text}
	if kind != "AWS" {
		if text == "" {
			return n, "the principal is empty"
		}
		return n, ""
	}
	fields, ok := splitARN(text)
	id := fields[5]
	name := strings.TrimPrefix(strings.TrimPrefix(id, "user/"), "role/")
	switch {
	case text == "*":
	case isAccount(text):
		n.account = text
	case strings.ContainsAny(text, "*?"):
		return n, quote(text) + " has a wildcard: a principal is * or is named whole"
	case isUniqueID(text):
	case !ok || !isAccount(fields[4]) || fields[3] != "":
		return n, quote(text) + " is not a principal: use an account id, or the ARN of a user, a role or a session of a role"
	case fields[2] == "iam" && id == "root":
		n.account = fields[4]
	case fields[2] == "iam" && name != id && name != "":
	case fields[2] == "sts" && (strings.HasPrefix(id, "assumed-role/") || strings.HasPrefix(id, "federated-user/")):
	default:
		return n, quote(text) + " is not the ARN of an account, a user, a role or a session of a role"
	}
	return n, ""
}

// isUniqueID reports whether a text is the unique id of a user or role, which the
// service shows in place of an ARN that was deleted.
func isUniqueID(s string) bool {
	if len(s) < 16 || !strings.HasPrefix(s, "AIDA") && !strings.HasPrefix(s, "AROA") {
		return false
	}
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// naming is how a statement names a principal.
type naming byte

const (
	notNamed    naming = iota
	byAccount          // its account: authority is delegated to the account's own policies
	byPrincipal        // itself, or everyone
)

// names reports how the entry names a principal.
func (n *PrincipalName) names(p *Principal) naming {
	switch {
	case n.everyone():
		return byPrincipal
	case n.Type != "AWS" || p == nil:
		return notNamed
	case n.account != "":
		switch {
		case n.account != p.Account:
			return notNamed
		case p.Kind == Root:
			return byPrincipal
		default:
			return byAccount
		}
	case n.Text == p.ARN, p.Kind == AssumedRole && n.Text == p.RoleARN:
		return byPrincipal
	default:
		return notNamed
	}
}

// names reports how the statement names a principal. All principals are named in
// documents that have no Principal.
func (s *Statement) names(p *Principal, bounded bool) naming {
	if s.Principals == nil {
		return byPrincipal
	}
	best := notNamed
	for i := range s.Principals {
		best = max(best, s.Principals[i].names(p))
	}
	if !s.NotPrincipal {
		return best
	}
	// NotPrincipal must name the principal itself: its account, which IAM asks to be
	// listed as well, does not exempt it. A principal with a permissions boundary is
	// never exempt from a Deny.
	if best == byPrincipal && (s.Effect == Allow || !bounded) {
		return notNamed
	}
	return byPrincipal
}
