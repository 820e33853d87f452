package api

// CreateAccessKey makes an access key, which is stored in the database.
type CreateAccessKey struct {
	Principal *string `must:"minlen=1,maxlen=2048"` // an ARN; it defaults to a user that is named after the key
	Comment   *string `must:"maxlen=256"`
}

// CreateAccessKeyReply answers a CreateAccessKey. Only it has the secret.
type CreateAccessKeyReply struct {
	AccessKey string
	Secret    string
	Principal string
	Created   string
	Comment   string
}

// ListAccessKeys lists the access keys of a server.
type ListAccessKeys struct{}

// ListAccessKeysReply answers a ListAccessKeys.
type ListAccessKeysReply struct {
	AccessKeys []AccessKeyDescription `reply:"always"`
}

// AccessKeyDescription is an access key without its secret.
type AccessKeyDescription struct {
	AccessKey string
	Principal string
	Created   string
	Expires   string
	Comment   string
	Source    string // file or database
}

// DeleteAccessKey removes an access key from the database.
type DeleteAccessKey struct {
	AccessKey *string `must:"present,minlen=1,maxlen=128"`
}

// DeleteAccessKeyReply answers a DeleteAccessKey.
type DeleteAccessKeyReply struct{}

// PutPrincipal stores a principal with its policies in the database, in place of what is stored of it.
type PutPrincipal struct {
	PrincipalArn       *string           `must:"present,minlen=1,maxlen=2048"`
	Policies           []PrincipalPolicy `must:"maxlen=20"`
	Boundary           *PrincipalPolicy
	Tags               map[string]string
	Sessions           []PrincipalSession `must:"maxlen=100"`
	ExpectedRevisionId *string            `must:"minlen=1,maxlen=255"`
}

// PrincipalPolicy is a policy with a name.
type PrincipalPolicy struct {
	Name     *string `must:"present,minlen=1,maxlen=255"`
	Document *string `must:"present,minlen=1"`
}

// PrincipalSession is a session of a role with policies of its own.
type PrincipalSession struct {
	Name     *string           `must:"present,minlen=1,maxlen=64"`
	Policies []PrincipalPolicy `must:"present,maxlen=20"`
}

// PutPrincipalReply answers a PutPrincipal.
type PutPrincipalReply struct {
	RevisionId string
}

// GetPrincipal returns a principal of the database.
type GetPrincipal struct {
	PrincipalArn *string `must:"present,minlen=1,maxlen=2048"`
}

// GetPrincipalReply answers a GetPrincipal.
type GetPrincipalReply struct {
	PrincipalArn string
	Policies     []PrincipalPolicy `reply:"always"`
	Boundary     *PrincipalPolicy
	Tags         map[string]string
	Sessions     []PrincipalSession
	RevisionId   string
}

// ListPrincipals lists the principals of a server.
type ListPrincipals struct{}

// ListPrincipalsReply answers a ListPrincipals.
type ListPrincipalsReply struct {
	Principals []PrincipalDescription `reply:"always"`
}

// PrincipalDescription is a principal with the names of its policies.
type PrincipalDescription struct {
	PrincipalArn string
	Policies     []string
	Boundary     string
	Tags         map[string]string
	Sessions     []string
	Source       string // file or database
	RevisionId   string // in the database
}

// DeletePrincipal removes a principal from the database.
type DeletePrincipal struct {
	PrincipalArn       *string `must:"present,minlen=1,maxlen=2048"`
	ExpectedRevisionId *string `must:"minlen=1,maxlen=255"`
}

// DeletePrincipalReply answers a DeletePrincipal.
type DeletePrincipalReply struct{}
